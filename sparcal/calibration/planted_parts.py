"""Good parts with a planted defect each, encoded: what corrections are chosen by, and what a lot is tested on."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sparcal.calibration.defaults import PLANTED
from sparcal.calibration.planted import Mask, PlantedDefect, draw_defects, plant
from sparcal.calibration.planted_crops import Crop, crop_around
from sparcal.errors import DataError
from sparcal.imaging.decode import ImageSource, open_image
from sparcal.imaging.preprocess import Geometry
from sparcal.threads import in_order
from sparcal.types import Encoder, Features


@dataclass(frozen=True, eq=False)
class PlantedParts:
    """n encoded images, each a good part with one defect.

    Args:
        part: which of the good parts each defect was planted on.
        pixels: largest extent of each defect in native pixels.
        cells: (n, h, w), the cells of the first level in which pixels changed.
        geometries: one for each image.
        crops: cut-outs around the defects, for people.
    """

    defects: tuple[PlantedDefect, ...]
    part: tuple[int, ...]
    pixels: tuple[float, ...]
    features: Features
    cells: Tensor
    geometries: tuple[Geometry, ...]
    crops: tuple[Crop, ...] = ()

    def __len__(self) -> int:
        return len(self.defects)

    def on(self, part: int) -> list[int]:
        """The numbers of the defects that were planted on this part."""
        return [number for number, one in enumerate(self.part) if one == part]

    def lying_on(self, parts: Collection[int]) -> list[int]:
        """The numbers of the defects on these parts; of all of them where none lies there."""
        return [number for number, one in enumerate(self.part) if one in parts] or list(range(len(self)))

    def __getitem__(self, numbers: Sequence[int]) -> PlantedParts:
        """These defects alone, on the parts that they were planted on."""
        return PlantedParts(
            defects=tuple(self.defects[number] for number in numbers),
            part=tuple(self.part[number] for number in numbers),
            pixels=tuple(self.pixels[number] for number in numbers),
            features=self.features[list(numbers)],
            cells=self.cells[list(numbers)],
            geometries=tuple(self.geometries[number] for number in numbers),
            crops=tuple(self.crops[number] for number in numbers if self.crops),
        )


def plant_on(
    encoder: Encoder,
    images: Sequence[ImageSource],
    *,
    outline: Mask | None,
    n: int = PLANTED,
    seed: int = 0,
    workers: int = 1,
) -> PlantedParts:
    """Plant n plain defects, and the faint ones that go with them, on good parts in turn, and encode the results.

    Args:
        outline: where the part is; see `planted.plant`.
    """
    if not images:
        raise DataError("Planted defects need at least one good part to lie on, got none: show some.")
    defects = draw_defects(n, seed)
    parts = [number % len(images) for number in range(len(defects))]
    # One photograph after the other, and of masks only what is asked of them: in native pixels either takes much memory.
    by_part = sorted(range(len(defects)), key=lambda number: parts[number])
    opened = lru_cache(maxsize=2)(lambda part: np.asarray(open_image(images[part]), np.uint8))

    def work(number: int) -> _PlantedDefect:
        from PIL import Image

        image, mask = plant(opened(parts[number]), defects[number], outline)
        pixels, geometry = encoder.preprocess(Image.fromarray(image))
        with torch.inference_mode():
            features = encoder(pixels[None])
        h, w, _ = features.grids[0]
        cells = cells_of(mask, geometry, (h, w))
        return _PlantedDefect(max(extent(mask), 1.0), features, cells, geometry, crop_around(image, mask))

    found = dict(zip(by_part, in_order(work, by_part, workers=workers), strict=True))
    done = [found[number] for number in range(len(defects))]
    return PlantedParts(
        defects=tuple(defects),
        part=tuple(parts),
        pixels=tuple(one.pixels for one in done),
        features=Features.cat([one.features for one in done]),
        cells=torch.from_numpy(np.stack([one.cells for one in done])),
        geometries=tuple(one.geometry for one in done),
        crops=tuple(one.crop for one in done),
    )


class _PlantedDefect(NamedTuple):
    """What is kept of one image: the longer side of its defect in pixels, and the cells that show it."""

    pixels: float
    features: Features
    cells: NDArray[np.bool_]
    geometry: Geometry
    crop: Crop


def cells_of(mask: Mask, geometry: Geometry, grid: tuple[int, int]) -> NDArray[np.bool_]:
    """The cells, (h, w), that show at least one pixel of a native mask; none where the encoder does not look there."""
    cells = np.zeros(grid, bool)
    y, x = np.nonzero(mask)
    top, left, bottom, right = geometry.covered
    valid_top, valid_left, valid_bottom, valid_right = geometry.valid
    rows = valid_top + (y + 0.5 - top) / (bottom - top) * (valid_bottom - valid_top)
    columns = valid_left + (x + 0.5 - left) / (right - left) * (valid_right - valid_left)
    row = np.floor(rows / geometry.input[0] * grid[0]).astype(int)
    column = np.floor(columns / geometry.input[1] * grid[1]).astype(int)
    seen = (row >= 0) & (row < grid[0]) & (column >= 0) & (column < grid[1])
    cells[row[seen], column[seen]] = True
    return cells


def extent(mask: Mask) -> float:
    """The longer side of the smallest upright box around a mask, in pixels."""
    y, x = np.nonzero(mask)
    return float(max(np.ptp(y), np.ptp(x)) + 1) if len(y) else 0.0
