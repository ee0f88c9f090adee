"""A station of 2,000 parts: fitting it from image files and calibrating a lot, by seconds and by the peak of memory.

Each of 2,000 files is one of 40 rendered parts with a noise of its own, 256 x 256, so that the features of no two
are equal. PaDiM sees 32 x 32 cells. PatchCore sees 16 x 16 cells: its coreset, a tenth of all cells, is chosen among 512,000.
What is compared is what the lot says of unseen parts, and what it says after the station was opened again.
"""

from __future__ import annotations

import resource
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from speed.measure import Cost, Goal, Row, Work, measure, timed

PARTS, QUICK_PARTS = 2000, 24
KINDS = 40  # different parts
GIGABYTES = 8
STATIONS = (("padim", 256), ("patchcore", 128))


def render(folder: Path, count: int) -> None:
    """Training parts, a lot's normals and unseen parts of it, as files."""
    from sparcal.rendering.parts import make_demo, write_png

    demo = make_demo(0, train=min(KINDS, count), good=12, bad=0)
    random = np.random.default_rng(0)
    groups = {
        "train": [demo.train[number % len(demo.train)].image for number in range(count)],
        "normals": [part.image for part in demo.lot_good[:8]],
        "unseen": [part.image for part in demo.lot_good[8:]],
    }
    for group, images in groups.items():
        (folder / group).mkdir()
        for number, image in enumerate(images):
            noisy = np.clip(image + random.normal(0, 4, image.shape), 0, 255).astype(np.uint8)
            write_png(noisy, folder / group / f"{number:04}.png")


def live(folder: str, host: str, size: int) -> Work:
    """Fit and calibrate; the outcome is CPU seconds of both, the peak in MB, and by how much two looks at parts differ."""
    from sparcal import load_encoder
    from sparcal.station.station import Station

    place = Path(folder)
    encoder = load_encoder(f"bundled?size={size}")

    def run() -> list[Any]:
        fitted, station = timed(lambda: Station.fit(place / "train", host, path=place / host, encoder=encoder))
        calibrated, lot = timed(lambda: station.calibrate(place / "normals", "lot"))
        return [fitted, calibrated, lot]

    def outcome(made: list[Any]) -> np.ndarray:
        fitted, calibrated, lot = made
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        first = np.array([one.score for one in lot.score(place / "unseen")])
        again = Station.open(place / host, encoder=encoder).lot("lot")
        second = np.array([one.score for one in again.score(place / "unseen")])
        return np.array([fitted.cpu_s, calibrated.cpu_s, peak, float(np.abs(second / first - 1).max())])

    return Work(run, outcome)


def rows(*, quick: bool = False) -> list[Row]:
    """The rows of the speed table."""
    count = QUICK_PARTS if quick else PARTS
    made = []
    with tempfile.TemporaryDirectory() as folder:
        render(Path(folder), count)
        for host, size in STATIONS:
            cost, found = measure(live, folder, host, size, repeats=1, limit=3600)
            fit, calibrate, peak, difference = found.tolist()
            made.append(
                Row(
                    path=f"Station of {count:,} parts, {host}, {size // 8} x {size // 8} cells: fit and a lot of 8",
                    peer="-",
                    ours=Cost(fit + calibrate, cost.wall_s, cost.extra_mb),
                    theirs=None,
                    measured=peak / 1024,
                    goal=Goal(GIGABYTES, "of memory at its peak", " GB", at_most=True),
                    agree=difference <= 1e-6,
                    agreement=f"what the lot says of unseen parts after opening it again differs by {difference:.0e}",
                    note=f"Fitting {fit:.0f} CPU s, the lot with choice and self-test {calibrate:.0f} CPU s.",
                )
            )
    return made
