"""A line to try things on, as folders of photographs: training parts, a day under the old lamp, a lot under a new one."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sparcal.errors import DataError
from sparcal.files.atomic import passing_folder, require_folder
from sparcal.files.full_disk import needs_room
from sparcal.rendering.parts import (
    LOT_LIGHTS,
    TRAINING_LIGHT,
    ProductName,
    find_product,
    part_seeds,
    render_part,
    write_png,
)
from sparcal.rendering.photograph import Light

NEW_LAMP = LOT_LIGHTS[0]
TRUTH = "truth.csv"


@dataclass(frozen=True)
class LineFolder:
    """One folder of a line: how many parts it shows, how many of them are bad, and under which lamp."""

    name: str
    parts: int
    bad: int
    light: Light


FOLDERS = (
    LineFolder("train/good", 40, 0, TRAINING_LIGHT),
    LineFolder("yesterday", 16, 4, TRAINING_LIGHT),
    LineFolder("normals", 8, 0, NEW_LAMP),
    LineFolder("lot", 24, 8, NEW_LAMP),
)


def write_line(
    target: Path, *, product: ProductName = "plate", seed: int = 0, size: int = 256, share: float = 1.0
) -> list[LineFolder]:
    """Render the folders of a line into `target`, and a table of the truth beside them; returns what was written.

    Args:
        target: a new or empty folder.
        seed: other parts for each.
        size: edge of the square photographs in pixels.
        share: of the usual number of parts, at least two in each folder.
    """
    defects = tuple(find_product(product).defects)
    require_folder(target, "A line")
    with needs_room(target), passing_folder(target, "parts") as staging:
        if any(path != staging for path in target.iterdir()):
            raise DataError(f"A line needs a new or empty folder, got {target}: choose another, or empty it first.")
        written = _render(staging, product, defects, seed=seed, size=size, share=share)
        for path in sorted(
            staging.iterdir(), key=lambda path: path.name == TRUTH
        ):  # last: with it, the line is complete
            path.rename(target / path.name)
    return written


def _render(
    target: Path, product: ProductName, defects: tuple[str, ...], *, seed: int, size: int, share: float
) -> list[LineFolder]:
    written, truth = [], []
    for group, usual in enumerate(FOLDERS):
        count = max(round(usual.parts * share), 2)
        bad = max(round(usual.bad * share), 1) if usual.bad else 0
        order = np.random.default_rng([seed, group, 4]).permutation(count)
        for number, (place, part_seed) in enumerate(zip(order, part_seeds(seed, 10 + group, count), strict=True)):
            defect = defects[number % len(defects)] if number < bad else None
            part = render_part(part_seed, light=usual.light, product=product, defect=defect, size=size)
            path = Path(usual.name) / f"part_{place:03d}.png"
            write_png(part.image, target / path)
            truth.append((path.as_posix(), defect or "good"))
        written.append(LineFolder(usual.name, count, bad, usual.light))
    with (target / TRUTH).open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows([("path", "truth"), *sorted(truth)])
    return written
