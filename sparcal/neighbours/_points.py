"""What searching and thinning share: the checks of their points, and compiled loops where these pay."""

from __future__ import annotations

from types import ModuleType
from typing import Literal

import torch
from torch import Tensor

from sparcal.compiled import TINY, compiled_module
from sparcal.errors import DataError, ShapeError
from sparcal.settings import in_short

Loops = Literal["search", "coreset"]

CACHE = 2**22  # bytes worked on at a time: about what a processor keeps close


def loops_for(what: Loops, differences: int) -> ModuleType | None:
    """The compiled loops for that many coordinate differences; None where torch alone is faster, or numba is missing."""
    return compiled_loops(what) if differences > TINY else None


def compiled_loops(what: Loops) -> ModuleType | None:
    """The compiled loops for a search or a coreset, or None where numba cannot be imported."""
    return compiled_module(f"sparcal.neighbours._{what}_kernels")


def check_points(name: str, points: Tensor) -> None:
    """Raise unless `points` are finite rows whose squared distances fit into float32."""
    if not isinstance(points, Tensor):
        raise ShapeError(f"{name} must be a floating tensor (rows, columns), got {in_short(points)}: convert it.")
    if points.ndim != 2 or points.shape[1] == 0 or not points.is_floating_point():
        raise ShapeError(
            f"{name} must be a floating tensor (rows, columns), got {tuple(points.shape)} {points.dtype}: "
            "flatten grids to one row per cell."
        )
    if len(points) == 0:
        return
    extremes = torch.stack(points.aminmax())  # NaN if any value is
    if not bool((extremes.abs() < 1e18).all()):  # squares must not overflow float32
        raise DataError(
            f"{name} must be finite and below 1e18 in size, got {float(extremes.abs().max()):g}: look for damaged images or an overflow."
        )
