"""Features for checks: normal ones, each cell around a mean of its own, and the same with one cell far away."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from sparcal.types import Features

OUTLIER_ROW, OUTLIER_COLUMN = 0.3, 0.6  # where the outlier is planted, as shares of the grid
OUTLIER_IMAGE = 2


def normal_features(*grids: tuple[int, int, int], channels: int | None = None) -> Callable[[int, int], Features]:
    """A factory (n, seed) -> Features: each cell has a mean of its own, each image a little noise around it.

    Args:
        grids: (h, w, d) of each level.
        channels: length of `cls`, for hosts that have one.
    """

    def around_mean(shape: tuple[int, ...], n: int, seed: int) -> Tensor:
        mean = torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))
        return mean + 0.1 * torch.randn(n, *shape, generator=torch.Generator().manual_seed(seed))

    def make(n: int, seed: int) -> Features:
        levels = tuple(around_mean(grid, n, seed + number) for number, grid in enumerate(grids))
        return Features(levels, None if channels is None else around_mean((channels,), n, seed))

    return make


def plant_outlier(features: Features) -> Features:
    """The same features with one cell of one image pushed far away, at the same place of every level."""

    def push(level: Tensor) -> Tensor:
        _, h, w, d = level.shape
        pushed = level.clone()
        far = torch.randn(d, generator=torch.Generator().manual_seed(d), dtype=level.dtype)
        pushed[OUTLIER_IMAGE, int(OUTLIER_ROW * h), int(OUTLIER_COLUMN * w)] += 10 * far
        return pushed

    return features.map(push)
