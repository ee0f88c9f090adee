"""What a new lot costs: recalibrating a PatchCore station on the bundled encoder against fitting it from images.

200 rendered training parts of 256 pixels, a lot of 8 under other lights. Fitting encodes the 200 images, chooses the
coreset, and scores the parts out of fold. Recalibrating encodes 8 images, compares three corrections, fits the one it
takes, chooses the coreset anew, sets the thresholds and runs the checks. The outcome compared is the scores of unseen
parts: a lot calibrated on the station as it was fitted, and on the station opened again.
"""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from speed.measure import Goal, Row, Work, measure

IMAGES, QUICK_IMAGES = 200, 32
TESTED = 6


@cache
def parts(train: int) -> tuple[list[Any], list[Any], list[Any]]:
    """Training parts, the lot's normals, and unseen parts of the lot."""
    from sparcal.rendering.parts import make_demo

    demo = make_demo(0, train=train, good=8 + TESTED, bad=0)
    good = [part.image for part in demo.lot_good]
    return [part.image for part in demo.train], good[:8], good[8:]


def fit(train: int, correction: str) -> Work:
    """Fit a station from images."""
    from sparcal.hosts import load_host
    from sparcal.station.station import Station

    encoder, _ = load_host("patchcore", encoder="bundled")
    images, normals, unseen = parts(train)
    folder = Path(tempfile.mkdtemp())

    def run() -> Any:
        shutil.rmtree(folder / "station", ignore_errors=True)
        return Station.fit(images, path=folder / "station", encoder=encoder)

    def outcome(station: Any) -> Any:
        lot = station.calibrate(normals, "lot", correction=correction)
        scores = [one.score for one in lot.score(unseen)]
        shutil.rmtree(folder)
        return np.array(scores)

    return Work(run, outcome)


def recalibrate(train: int, correction: str) -> Work:
    """Calibrate a fitted station to a new lot."""
    from sparcal.hosts import load_host
    from sparcal.station.station import Station

    encoder, _ = load_host("patchcore", encoder="bundled")
    images, normals, unseen = parts(train)
    folder = Path(tempfile.mkdtemp())
    Station.fit(images, path=folder / "station", encoder=encoder)
    names = iter(range(1000))

    def run() -> Any:
        station = Station.open(folder / "station", encoder=encoder)
        return station.calibrate(normals, f"lot {next(names)}", correction=correction)

    def outcome(lot: Any) -> Any:
        scores = [one.score for one in lot.score(unseen)]
        shutil.rmtree(folder)
        return np.array(scores)

    return Work(run, outcome)


def rows(*, quick: bool = False) -> list[Row]:
    """One row for each way to recalibrate."""
    train = QUICK_IMAGES if quick else IMAGES
    found = []
    for correction, goal in (("sparc-recentred", 1.5), ("auto", 1.0)):
        theirs, expected = measure(fit, train, correction, repeats=1, limit=900)
        ours, scores = measure(recalibrate, train, correction, repeats=1, limit=900)
        difference = float(np.abs(scores / expected - 1).max())
        ratio = theirs.cpu_s / ours.cpu_s
        found.append(
            Row(
                path=f"a new lot of 8, station of {train}, correction {correction}",
                peer="fitting the station from images",
                ours=ours,
                theirs=theirs,
                measured=ratio,
                goal=None if quick else Goal(goal, "as fast"),
                agree=difference <= 1e-6,
                agreement=f"scores of unseen parts agree to {difference:.1g}",
                note="with evidence, thresholds and checks on both sides",
            )
        )
    return found
