"""Large tensors, and how much memory is free: a task that is too large is refused before it starts, not killed half way."""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sparcal.errors import DataError
from sparcal.files.amounts import amount

LARGE = 4 * 2**20  # bytes from which numpy asks for large pages

# glibc's names for what `mallopt` sets, and what they are set to: blocks below the first size come from memory that the
# process holds, and up to the second of it is held while free.
_TRIM, _MAP = -1, -3
_MAPPED_FROM, _HELD = 32 * 2**20, 256 * 2**20


def uninitialised(shape: Sequence[int], like: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
    """A tensor about to be filled, on the device and, unless `dtype` is given, in the dtype of `like`.

    Large results on the CPU come from numpy, which asks for large pages: writing them for the first time costs half.
    """
    dtype, shape = dtype or like.dtype, tuple(shape)
    size = math.prod(shape) * dtype.itemsize
    if like.device.type != "cpu" or size < LARGE:
        return torch.empty(shape, dtype=dtype, device=like.device)
    return torch.from_numpy(np.empty(size, np.uint8)).view(dtype).view(shape)


def mean_of_images(x: Tensor) -> Tensor:
    """The mean over the first axis in float64, image by image: torch would copy all of them to float64 first."""
    total = torch.zeros(x.shape[1:], dtype=torch.float64, device=x.device)
    for image in x:
        total += image
    return total / len(x)


def available_bytes() -> int | None:
    """Memory that a process could still take, or None where the system does not say."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None


def require_memory(needed: int, what: str, remedy: str) -> None:
    """Raise DataError if `needed` bytes are more than this machine has free."""
    free = available_bytes()
    if free is not None and needed > free:
        raise DataError(f"{what} needs about {amount(needed)} of memory, got {amount(free)} free: {remedy}.")


def hold_freed_memory() -> bool:
    """Have the C library hold on to what is freed; False where it is not glibc, or where the environment has set it.

    A network takes and frees the same hundred megabytes for every image. By default glibc hands them back each time, and
    the system clears every page anew: up to half of the time of encoding an image. This holds for the whole process.
    """
    if any(name in os.environ for name in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")):
        return False
    try:
        os.confstr("CS_GNU_LIBC_VERSION")
        tune = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError, ValueError):  # another C library, or another system
        return False
    return bool(tune(_MAP, _MAPPED_FROM)) and bool(tune(_TRIM, _HELD))
