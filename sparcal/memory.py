"""Memory for large results."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

LARGE = 4 * 2**20  # bytes from which numpy asks for large pages


def uninitialised(shape: Sequence[int], like: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
    """A tensor about to be filled, on the device and, unless said otherwise, in the dtype of `like`.

    Much memory on the CPU comes from numpy, which asks for large pages: filling it for the first time costs half.
    """
    dtype, shape = dtype or like.dtype, tuple(shape)
    size = math.prod(shape) * dtype.itemsize
    if like.device.type != "cpu" or size < LARGE:
        return torch.empty(shape, dtype=dtype, device=like.device)
    return torch.from_numpy(np.empty(size, np.uint8)).view(dtype).view(shape)
