"""What searching and thinning share: the checks of their points, and compiled loops where these pay."""

from __future__ import annotations

from types import ModuleType

import torch
from torch import Tensor

from sparcal.errors import DataError, ShapeError

CACHE = 2**22  # bytes worked on at a time: about what a processor keeps close
TINY = 2**22  # below this many coordinate differences, compiled loops do not repay their import


def loops_for(differences: int) -> ModuleType | None:
    """The compiled loops for that many coordinate differences; None where torch alone is faster, or numba is missing."""
    return compiled_loops() if differences > TINY else None


def compiled_loops() -> ModuleType | None:
    """The compiled loops, or None where numba cannot be imported."""
    try:
        from sparcal.neighbours import _kernels
    except ImportError:
        return None
    return _kernels


def check_points(name: str, points: Tensor) -> None:
    """Raise unless `points` are finite rows whose squared distances fit into float32."""
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
