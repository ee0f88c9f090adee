"""The distances that both the search and the coreset measure, as compiled loops; importing this file imports numba."""

from __future__ import annotations

import numpy as np

from sparcal.compiled import compiled
from sparcal.neighbours._kernel_types import Points, Sketches

_STRIDE = 256  # coordinates between two looks at whether a sum is already too large


@compiled
def square_gap(a: Points, b: Points, limit: float) -> float:
    """Squared distance in float64, or some number above `limit` once it is known to exceed it."""
    total = 0.0
    for first in range(0, a.shape[0], _STRIDE):
        total += _float64_square_gap(a[first : first + _STRIDE], b[first : first + _STRIDE])
        if total > limit:
            break
    return total


# Inner loops count from 0 to the length of an array: the compiler vectorises other forms badly.
@compiled
def _float64_square_gap(a: Points, b: Points) -> float:
    total = 0.0
    for c in range(a.shape[0]):
        gap = np.float64(a[c]) - np.float64(b[c])
        total += gap * gap
    return total


@compiled
def sketch_gap(a: Sketches, b: Sketches) -> np.float32:
    """Squared distance of two sketches in float32."""
    total = np.float32(0)
    for c in range(a.shape[0]):
        gap = a[c] - b[c]
        total += gap * gap
    return total
