"""NumPy arrays as tensors, and tensors in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sparcal.errors import DataError, NoImageError

Index = int | slice | Sequence[int] | Tensor | NDArray[Any]


def from_array(value: Any) -> Any:
    """A NumPy array of numbers as a tensor, without a copy where its memory allows; anything else as it is."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiu":
        return value
    native = np.require(value, value.dtype.newbyteorder("="), ["C", "W"])
    return torch.from_numpy(native)


def images_in_words(count: int) -> str:
    """How many images, for a line that a person reads."""
    return f"{count} image{'' if count == 1 else 's'}"


def kind_in_words(tensor: Tensor) -> str:
    """The type of a tensor's numbers, and its device where that is not the processor."""
    where = "" if tensor.device.type == "cpu" else f" on {tensor.device}"
    return f"{tensor.dtype}".removeprefix("torch.") + where


def rows_of(tensors: Sequence[Tensor], index: Index, who: str) -> list[Tensor]:
    """The chosen rows of tensors of one length; an integer keeps the axis.

    Args:
        index: a number, also from the end; a slice; several numbers; a tensor of numbers, or of one bool per row.
    """
    count = len(tensors[0])
    one = index if isinstance(index, int | np.integer) and not isinstance(index, bool) else None
    several = index if isinstance(index, Sequence) and not isinstance(index, str | bytes) else None
    try:
        if one is not None and -count <= one < count:
            where: Any = slice(one % count, one % count + 1)
        elif several is not None and all(isinstance(i, int | np.integer) and not isinstance(i, bool) for i in several):
            where = torch.tensor([int(i) for i in several], dtype=torch.long)
        elif isinstance(index, np.ndarray) and index.ndim == 1 and index.dtype.kind in "iub":
            where = torch.from_numpy(index.astype(bool if index.dtype.kind == "b" else np.int64))
        elif isinstance(index, Tensor) and index.ndim == 1:
            where = index.long() if index.dtype == torch.uint8 else index  # which torch would take for a mask
        elif isinstance(index, slice):
            where = index
        else:
            raise IndexError
        return [x[where] for x in tensors]
    except (IndexError, TypeError, ValueError, OverflowError) as error:
        raise NoImageError(
            f"{who} of {images_in_words(count)} takes one number below {count}, a slice, or several such numbers, got "
            f"{index if one is not None else type(index).__name__}: choose among the images there are."
        ) from error


def as_device(device: torch.device | str, who: str) -> torch.device:
    """The device of that name, or a DataError where PyTorch knows none."""
    try:
        if not isinstance(device, torch.device | str):
            raise TypeError
        return torch.device(device)
    except (RuntimeError, TypeError, ValueError) as error:
        raise DataError(
            f"{who} needs a device, got {device if isinstance(device, str) else type(device).__name__}: write 'cpu'."
        ) from error
