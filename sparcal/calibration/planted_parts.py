"""Good parts with a planted defect each, encoded: what corrections are chosen by, and what a lot is tested on."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

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
    opened = [np.asarray(open_image(source), np.uint8) for source in images]

    def work(number: int) -> tuple[Features, Mask, Geometry, Crop]:
        from PIL import Image

        image, mask = plant(opened[parts[number]], defects[number], outline)
        pixels, geometry = encoder.preprocess(Image.fromarray(image))
        with torch.inference_mode():
            return encoder(pixels[None]), mask, geometry, crop_around(image, mask)

    done = list(in_order(work, range(len(defects)), workers=workers))
    grid = done[0][0].levels[0].shape[1:3]
    return PlantedParts(
        defects=tuple(defects),
        part=tuple(parts),
        pixels=tuple(max(extent(one[1]), 1.0) for one in done),
        features=Features.cat([one[0] for one in done]),
        cells=torch.from_numpy(np.stack([cells_of(one[1], one[2], (grid[0], grid[1])) for one in done])),
        geometries=tuple(one[2] for one in done),
        crops=tuple(one[3] for one in done),
    )


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
