"""One lot of real photographs, as somebody new to sparcal would try it: bottles under a lamp that the station does not know.

    python -m speed.studies.bottle_lot --photographs DIR [--seeds 0 1 2]

A station is fitted on 50 good bottles as they were photographed. The lot is under one other lamp: other gamma, light that
falls off across the image, a warm tint, 0.72 of the brightness, and the camera 4 pixels aside. 8 good parts are shown, then
50 other good and 63 defective ones are judged, with everything by default. The same for corrections asked
for by name, and for the station as it was, with its own reference and threshold. A seed decides which bottles are which.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from speed.studies.lots import images_in, read_photograph
from speed.studies.relight import Image, Recipe, relight
from speed.studies.remember import RememberingEncoder

TRAINED, SHOWN, JUDGED = 50, 8, 50
LAMP = Recipe(gamma=1.2, gradient=(0.25, -0.1), tint=(1.12, 1.0, 0.86), brightness=0.72, shift=(4, 0), noise=1.0)
ASKED = ("auto", "sparc", "normals", "sparc-recentred")


def bottle_lot(folder: Path, seed: int) -> list[dict[str, Any]]:
    """What the station as it was, `auto`, and corrections by name find and reject in one lot."""
    from sparcal.hosts import load_host
    from sparcal.station.station import Station

    sound = [*images_in(folder / "train" / "good"), *images_in(folder / "test" / "good")]
    spoilt = [path for kind in sorted((folder / "test").iterdir()) if kind.name != "good" for path in images_in(kind)]
    order = np.random.default_rng([seed, 50]).permutation(len(sound))
    trained, shown, judged = np.split(order[: TRAINED + SHOWN + JUDGED], [TRAINED, TRAINED + SHOWN])
    encoder = RememberingEncoder(load_host("patchcore", encoder="bundled")[0])
    normals, good = ([under_lamp(sound[i], i) for i in numbers] for numbers in (shown, judged))
    bad = [under_lamp(path, len(sound) + number) for number, path in enumerate(spoilt)]
    with tempfile.TemporaryDirectory() as work:
        station = Station.fit(
            [read_photograph(sound[i]) for i in trained], path=Path(work) / "station", encoder=encoder
        )
        rows = [judge(station.own(), good, bad, seed, "own, not calibrated")]
        for correction in ASKED:
            lot = station.calibrate(normals, name=correction, correction=correction, activate=False)
            rows.append(judge(lot, good, bad, seed, correction))
    return rows


def under_lamp(path: Path, seed: int) -> Image:
    """A bottle as the other station would have photographed it."""
    return relight(read_photograph(path), LAMP, seed=int(seed))


def judge(lot: Any, good: list[Image], bad: list[Image], seed: int, asked: str) -> dict[str, Any]:
    """How many bad parts a lot finds, and how many good ones it rejects."""
    found, rejected = (sum(one.verdict == "fail" for one in lot.score(side)) for side in (bad, good))
    said = "" if lot.name is None else lot.record.choice.sentence
    return {
        "seed": seed,
        "asked": asked,
        "found": found,
        "bad": len(bad),
        "rejected": rejected,
        "good": len(good),
        "said": said,
    }


def table(rows: list[dict[str, Any]]) -> str:
    """All rows as a table of Markdown."""
    lines = ["| seed | reference | defects found | good parts rejected | what the lot says |", "|---|---|---|---|---|"]
    lines += [
        f"| {row['seed']} | {row['asked']} | {row['found']} of {row['bad']} | {row['rejected']} of {row['good']} | {row['said']} |"
        for row in rows
    ]
    return "\n".join(lines)


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photographs", type=Path, required=True, help="a folder with bottle")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    asked = parser.parse_args()
    torch.set_num_threads(1)
    print(table([row for seed in asked.seeds for row in bottle_lot(asked.photographs / "bottle", seed)]))


if __name__ == "__main__":
    main()
