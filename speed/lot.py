"""What people wait for at a PatchCore station on the bundled encoder: fitting it, a new lot, one image.

200 rendered training parts of 256 pixels, a lot of 8 under other lights, one thread. Fitting encodes the 200 images,
chooses the coreset and those of its folds, scores the parts out of fold and tests the station on planted defects. Loops that
an installation compiles at their first use, about ten seconds, are compiled before the clock starts.
A new lot encodes 8 images and 96 planted defects, compares corrections unless one is named, fits the one it takes, sets the
thresholds, tests and checks. The outcome compared is the scores of unseen parts: a lot calibrated on the station as it
was fitted, and on the station opened again.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from speed.measure import Cost, Goal, Row, Work, measure

IMAGES, QUICK_IMAGES = 200, 32
TESTED = 6
SCORED = 3  # times each unseen part is scored
CPU_SECONDS = {"sparc-recentred": 6.0, "auto": 15.0}  # goals of a new lot, by what is asked for
CPU_SECONDS_OF_FIT = 40.0
CPU_SECONDS_OF_IMAGE = 0.070


def render(train: int, folder: str) -> None:
    """Training parts and good parts of the lot, as arrays in files."""
    from sparcal.rendering.parts import make_demo

    demo = make_demo(0, train=train, good=8 + TESTED, bad=0)
    for group, members in (("train", demo.train), ("lot", demo.lot_good)):
        np.save(Path(folder) / f"{group}.npy", np.stack([part.image for part in members]))


def parts(folder: str, group: str) -> list[Any]:
    """What was rendered: "train", or "lot", the first 8 of which are its normals, the others unseen parts."""
    return list(np.load(Path(folder) / f"{group}.npy"))


def fit(folder: str) -> Work:
    """Fit a station from images; the outcome is what lots of it say about unseen parts, one row per way to calibrate."""
    from sparcal.hosts import load_host
    from sparcal.station.station import Station

    encoder, _ = load_host("patchcore", encoder="bundled")
    images, lot = parts(folder, "train"), parts(folder, "lot")
    path = Path(folder) / "station"
    # What an installation compiles once and a process loads once.
    Station.fit(images[:16], path=Path(folder) / "warm-up", encoder=encoder)

    def run() -> Any:
        shutil.rmtree(path, ignore_errors=True)
        return Station.fit(images, path=path, encoder=encoder)

    def outcome(station: Any) -> Any:
        lots = [station.calibrate(lot[:8], f"first {name}", correction=name) for name in CPU_SECONDS]
        return np.array([[one.score for one in made.score(lot[8:])] for made in lots])

    return Work(run, outcome)


def recalibrate(folder: str, correction: str) -> Work:
    """Calibrate the fitted station to a new lot."""
    from sparcal.hosts import load_host
    from sparcal.station.station import Station

    encoder, _ = load_host("patchcore", encoder="bundled")
    shown = parts(folder, "lot")
    normals, unseen = shown[:8], shown[8:]
    path = Path(folder) / "station"
    # What is loaded once per process, not once per lot: modules, compiled loops.
    Station.open(path, encoder=encoder).calibrate(normals[:4], f"warm-up {correction}", correction="sparc")

    def run() -> Any:
        return Station.open(path, encoder=encoder).calibrate(normals, f"lot {correction}", correction=correction)

    return Work(run, lambda lot: np.array([one.score for one in lot.score(unseen)]))


def score(folder: str, correction: str) -> Work:
    """Judge parts one after the other by the lot that was calibrated."""
    from sparcal.hosts import load_host
    from sparcal.station.station import Station

    encoder, _ = load_host("patchcore", encoder="bundled")
    unseen = parts(folder, "lot")[8:]
    lot = Station.open(Path(folder) / "station", encoder=encoder).lot(f"lot {correction}")
    lot.score(unseen[:1])
    return Work(lambda: [one.score for one in lot.score(unseen * SCORED)])


def rows(*, quick: bool = False) -> list[Row]:
    """Fitting, a new lot of either kind, one image."""
    train = QUICK_IMAGES if quick else IMAGES
    with tempfile.TemporaryDirectory() as folder:
        render(train, folder)
        fitting, first = measure(fit, folder, repeats=1, limit=900)
        found = [_row(f"fit a station of {train}", fitting, CPU_SECONDS_OF_FIT, quick, None)]
        for (correction, goal), expected in zip(CPU_SECONDS.items(), first, strict=True):
            cost, scores = measure(recalibrate, folder, correction, repeats=1, limit=900)
            difference = float(np.abs(scores / expected - 1).max())
            found.append(
                _row(f"a new lot of 8, station of {train}, correction {correction}", cost, goal, quick, difference)
            )
            judging, again = measure(score, folder, correction, repeats=1, limit=900)
            difference = float(np.abs(np.reshape(again, (SCORED, -1)) / expected - 1).max())
            found.append(
                _row(
                    f"judge one image, lot by {correction}, station of {train}",
                    judging.times(1 / (SCORED * TESTED)),
                    CPU_SECONDS_OF_IMAGE,
                    quick,
                    difference,
                )
            )
        return found


def _row(path: str, cost: Cost, goal: float, quick: bool, difference: float | None) -> Row:
    return Row(
        path=path,
        peer="-",
        ours=cost,
        theirs=None,
        measured=cost.cpu_s,
        goal=None if quick else Goal(goal, "of CPU time", " s", at_most=True),
        agree=difference is None or difference <= 1e-6,
        agreement="nothing to compare"
        if difference is None
        else f"scores of unseen parts by the station as fitted and opened again agree to {difference:.1g}",
        note="with evidence, thresholds, self-test and checks" if "judge" not in path else "from pixels to verdict",
        short="Two thirds of fitting are six exact coresets, one for the reference and one for each fold. A third of a new lot is "
        "the encoder's, for 8 parts and 96 planted defects; then come the search in ten banks, one per part left out, and the "
        "corrections of these banks. Fewer defects or folds would be less exact.",
    )
