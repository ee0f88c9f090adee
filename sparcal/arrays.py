"""NumPy arrays as tensors, and tensors in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor


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
