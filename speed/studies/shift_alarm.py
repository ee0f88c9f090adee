"""How often the shift alarm is wrong, and how soon it is right, by product and kind of shift.

    python -m speed.studies.shift_alarm [--photographs DIR] [--products bottle cubes plate] [--runs 20]

A station is fitted on each product. Parts of it are photographed as they are, under another lamp, dimmed, moved, blurred and
with defects; every part has fresh sensor noise, its own brightness (1 %) and its own place (1 pixel). A monitor of the
station's own reference then takes streams that are drawn from what it read of them: good parts for `--runs` times 1,000
parts, and 200 good parts followed by each kind of shift, five times each.
"""

from __future__ import annotations

import argparse
import copy
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from sparcal.rendering.parts import LOT_LIGHTS, PRODUCTS, TRAINING_LIGHT, ProductName, part_seeds, render_part
from speed.studies.lots import BOTTLES_TRAINED, SIZE, TRAINED, images_in, read_photograph
from speed.studies.relight import Image, Recipe, relight

PARTS = 80  # good parts that streams are drawn from
SHIFTED = 24  # parts of each kind of shift
BEFORE, AFTER, BURST, QUIET = 200, 100, 15, 1000
REPEATED = 5
LAMP = Recipe(gamma=1.15, gradient=(0.15, -0.1), tint=(1.12, 1.0, 0.85), brightness=0.8, noise=1.5)
SHIFTS = {
    "lamp": LAMP,
    "15 % darker": Recipe(brightness=0.85),
    "5 % darker": Recipe(brightness=0.95),
    "warmer": Recipe(tint=(1.06, 1.0, 0.94)),
    "moved by 5 pixels": Recipe(shift=(4, -3)),
}
Group = dict[str, list[Image]]


def taken(image: Image, seed: int, recipe: Recipe = Recipe()) -> Image:  # noqa: B008 - it cannot change
    """One more photograph of a part: fresh noise, a little more or less light, a pixel off."""
    rng = np.random.default_rng([seed, 77])
    right, down = rng.integers(-1, 2, 2)
    light = recipe.brightness * float(np.exp(rng.normal(0, 0.01)))
    shift = (recipe.shift[0] + int(right), recipe.shift[1] + int(down))
    return relight(image, replace(recipe, shift=shift, brightness=light, noise=max(recipe.noise, 1.0)), seed=seed)


def rendered(product: ProductName) -> tuple[list[Image], Group]:
    """Training parts, good parts and defective ones of a rendered product."""

    def parts(group: int, count: int, defects: list[str], **more: Any) -> list[Image]:
        light = more.pop("light", TRAINING_LIGHT)
        kinds = defects or [None]  # type: ignore[list-item]
        return [
            render_part(s, light=light, product=product, size=SIZE, defect=kinds[i % len(kinds)], **more).image
            for i, s in enumerate(part_seeds(0, group, count))
        ]

    made = PRODUCTS[product]
    found = {
        "good": parts(1, PARTS, []),
        "defects": parts(2, SHIFTED, list(made.defects), extent=1.3),
        "large defects": parts(3, SHIFTED, list(made.large), extent=2.0),
        "another lamp, rendered": parts(4, SHIFTED, [], light=LOT_LIGHTS[0]),
    }
    return parts(0, TRAINED, []), found


def bottles(folder: Path) -> tuple[list[Image], Group]:
    """Photographs of bottles; the station has the first 80."""
    trained = images_in(folder / "train" / "good")
    kinds = [path for path in sorted((folder / "test").iterdir()) if path.name != "good"]
    found = {
        "good": trained[BOTTLES_TRAINED:][:PARTS],
        "defects": [path for kind in kinds for path in images_in(kind)],
        "large defects": images_in(folder / "test" / "broken_large"),
    }
    read = {name: [read_photograph(path) for path in paths] for name, paths in found.items()}
    return [read_photograph(path) for path in trained[:BOTTLES_TRAINED]], read


def cubes(folder: Path) -> tuple[list[Image], Group]:
    """Photographs of cubes; camera, fixture and exposure had changed four days later."""
    found = {
        "good": images_in(folder / "test" / "good", prefix="20230210"),
        "defects": images_in(folder / "test" / "hole", prefix="20230210"),
        "four days later": images_in(folder / "test" / "good", prefix="20230214"),
    }
    read = {name: [read_photograph(path) for path in paths] for name, paths in found.items()}
    return [read_photograph(path) for path in images_in(folder / "train" / "good")], read


def readings(train: list[Image], groups: Group, folder: Path) -> tuple[Callable[[], Any], dict[str, list[Any]]]:
    """A way to make a monitor, and what it reads of each group, shifted ones included."""
    from sparcal.station.station import Station

    lot = Station.fit(train, "patchcore", path=folder, encoder="bundled").own()
    good = groups["good"]
    streams = {name: [taken(image, 1000 + i) for i, image in enumerate(images)] for name, images in groups.items()}
    streams["good"] = [taken(good[i % len(good)], i) for i in range(max(PARTS, len(good)))]
    for number, (name, recipe) in enumerate(SHIFTS.items()):
        streams[name] = [taken(good[i % len(good)], 2000 + 100 * number + i, recipe) for i in range(SHIFTED)]
    sharp = [taken(good[i % len(good)], 3000 + i) for i in range(SHIFTED)]
    streams["out of focus"] = [np.asarray(cv2.GaussianBlur(image, (0, 0), 1.5), np.uint8) for image in sharp]
    reader = lot.monitor()
    read = {name: [reader.read(one) for one in lot.stream(images)] for name, images in streams.items()}
    return lambda: copy.deepcopy(reader), read  # it has read these parts and taken none


def study(product: str, make: Callable[[], Any], read: dict[str, list[Any]], runs: int) -> list[str]:
    """The rows of one product."""
    rng, good = np.random.default_rng(0), read["good"]

    def stream(*groups: tuple[list[Any], int]) -> Any:
        monitor = make()
        for group, count in groups:
            for number in rng.integers(len(group), size=count):
                monitor.take(group[number])
        return monitor.shift

    false = sum(stream((good, QUIET)) is not None for _ in range(runs))
    mixed = good * 19 + [read["defects"][i % len(read["defects"])] for i in range(len(good))]
    steady = sum(stream((mixed, QUIET)) is not None for _ in range(max(1, runs // 4)))
    rows = [f"| {product} | good parts | {false} in {runs} x {QUIET:,} parts | |"]
    rows.append(f"| {product} | 5 % defects all the time | {steady} in {max(1, runs // 4)} x {QUIET:,} parts | |")
    for name, group in read.items():
        if name == "good":
            continue
        burst = "defects" in name
        found = [stream((good, BEFORE), (group, BURST if burst else AFTER)) for _ in range(REPEATED)]
        delays = sorted(shift.last - BEFORE + 1 for shift in found if shift is not None)
        said = next((", ".join(shift.words) for shift in found if shift is not None), "")
        title = f"{BURST} {name} in a row" if burst else name
        told = f"{len(delays)} of {REPEATED}" + (f", after {delays[len(delays) // 2]} parts" if delays else "")
        rows.append(f"| {product} | {title} | {told} | {said} |")
    return rows


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photographs", type=Path, help="a folder with bottle and dobot_cubes")
    parser.add_argument("--products", nargs="+", default=["bottle", "cubes", *PRODUCTS])
    parser.add_argument("--runs", type=int, default=20)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    print("| product | stream | alarms | words |\n|---|---|---|---|", flush=True)
    for product in asked.products:
        if product in PRODUCTS:
            train, groups = rendered(product)
        elif asked.photographs is None:
            continue
        elif product == "bottle":
            train, groups = bottles(asked.photographs / "bottle")
        else:
            train, groups = cubes(asked.photographs / "dobot_cubes")
        with tempfile.TemporaryDirectory() as folder:
            make, read = readings(train, groups, Path(folder) / "station")
            print("\n".join(study(product, make, read, asked.runs)), flush=True)


if __name__ == "__main__":
    main()
