"""What metrics take: any numeric array or tensor; labels and masks hold only 0 and 1."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from sparcal.errors import DataError, ShapeError


def as_binary(values: NDArray[Any], subject: str) -> NDArray[np.bool_]:
    """`values` as bool; only 0 and 1 pass, because 255 may mean anomalous, unlabelled or a class index."""
    if values.dtype == bool:
        return values
    truth: NDArray[np.bool_] = values != 0
    if not np.array_equal(values, truth):
        wrong = values[values != truth].flat[0]
        raise DataError(
            f"{subject} must hold only 0 and 1, got {wrong}: pass `x > 0` if every other value is anomalous."
        )
    return truth


def as_numbers(values: ArrayLike | Tensor) -> NDArray[Any]:
    """`values` as a numeric array; tensors may be on any device, need a gradient or be bfloat16."""
    if isinstance(values, Tensor):
        tensor = values.detach().cpu()
        array = (tensor.float() if tensor.dtype.itemsize == 2 and tensor.is_floating_point() else tensor).numpy()
    else:
        try:
            array = np.asarray(values)
        except ValueError as error:  # ragged lists
            raise ShapeError(f"Masks, maps, labels and scores must be arrays, got a ragged list: {error}.") from error
    if array.dtype.kind not in "biuf":
        raise DataError(f"Masks, maps, labels and scores must be numeric, got dtype {array.dtype}: convert them first.")
    return array
