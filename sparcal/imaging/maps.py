"""Cell scores to pixel maps, at the input's resolution or in native coordinates, and reductions to image scores.

A map is `Y @ cells @ X.T`; `sparcal.imaging.map_matrices` makes the matrices.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sparcal.errors import DataError, ShapeError
from sparcal.imaging.map_matrices import MapRule, draw_native, input_axes, value_below
from sparcal.imaging.preprocess import Geometry

__all__ = ["MapRule", "input_map", "native_map", "outside_value", "top_mean"]


def input_map(cell: Tensor, rule: MapRule) -> Tensor:
    """Maps at the encoder's input size, upsampled and then smoothed: (n, h, w) to (n, H, W).

    float64 stays float64, anything else becomes float32.
    """
    if cell.ndim != 3 or 0 in cell.shape[1:]:
        raise ShapeError(f"input_map needs cell scores (n, h, w), got {tuple(cell.shape)}.")
    dtype = torch.float64 if cell.dtype == torch.float64 else torch.float32
    y, x = input_axes(cell.shape[1], cell.shape[2], rule)
    rows, columns = (torch.as_tensor(axis, dtype=dtype, device=cell.device) for axis in (y, x))
    return rows @ cell.to(dtype) @ columns.T


def native_map(cell_hw: Tensor, rule: MapRule, geometry: Geometry, *, outside: float) -> NDArray[np.float32]:
    """The map of one image in native pixels, (H, W).

    Args:
        cell_hw: the cell scores of one image, (h, w).
        outside: score of the pixels that the encoder never saw; see `outside_value`.
    """
    return draw_native(cell_array(cell_hw), rule, geometry, outside=outside)


def outside_value(cells: Tensor) -> float:
    """One constant strictly below every pixel of the maps of all `cells`.

    Use one value for all images that are ranked together: a value per image would mix unseen pixels of one image
    with seen pixels of another.
    """
    return value_below(cell_array(cells))


def top_mean(values: Tensor, fraction: float) -> Tensor:
    """Mean of the largest int(fraction * p) of each row of (n, p), or its maximum where that count is 0."""
    if values.ndim != 2 or values.shape[1] == 0:
        raise ShapeError(f"top_mean needs values (n, p) with p of at least 1, got {tuple(values.shape)}.")
    if not 0 <= fraction <= 1:
        raise DataError(f"top_mean needs a fraction between 0 and 1, got {fraction}.")
    count = max(int(fraction * values.shape[1]), 1)
    return values.topk(count, dim=1, sorted=False).values.mean(dim=1)


def cell_array(cells: Tensor) -> NDArray[Any]:
    """The scores as numpy has them; half precision, which numpy sums badly, is widened."""
    dtype = torch.promote_types(cells.dtype, torch.float32)
    array: NDArray[Any] = cells.detach().to("cpu", dtype).numpy()
    return array
