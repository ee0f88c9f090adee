"""Random features of good parts on a small grid, parts with planted defects among them, and where their cells lie."""

from __future__ import annotations

import torch

from sparcal.calibration.planted import draw_defects
from sparcal.calibration.planted_parts import PlantedParts
from sparcal.imaging.preprocess import Geometry
from sparcal.types import Features

PLACE = Geometry((32, 40), (32, 40), (0.0, 0.0, 32.0, 40.0), (0, 0, 32, 40))


def grids(n, seed):
    mean = torch.randn(4, 5, 6, generator=torch.Generator().manual_seed(99))
    return Features((mean + 0.3 * torch.randn(n, 4, 5, 6, generator=torch.Generator().manual_seed(seed)),))


def planted_on(parts, n, seed=0, strength=1.0):
    """n plain defects and half as many faint ones on these parts in turn: in one or two cells the features move."""
    defects = draw_defects(n, seed)
    random = torch.Generator().manual_seed(seed)
    on = [number % len(parts) for number in range(len(defects))]
    level = parts.levels[0][on].clone()
    cells = torch.zeros(level.shape[:3], dtype=torch.bool)
    for number in range(len(defects)):
        row, column = (int(torch.randint(0, size, (1,), generator=random)) for size in level.shape[1:3])
        cells[number, row, column : column + 2] = True
        level[number][cells[number]] += strength * torch.randn(level.shape[-1], generator=random)
    return PlantedParts(
        defects=tuple(defects),
        part=tuple(on),
        pixels=tuple(100 * one.size for one in defects),
        features=Features((level,)),
        cells=cells,
        geometries=(PLACE,) * len(defects),
    )
