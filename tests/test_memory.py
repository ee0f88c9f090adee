"""Memory for large results has the shape, dtype and device asked for, and belongs to its tensor alone."""

from __future__ import annotations

import pytest
import torch

from sparcal.memory import LARGE, uninitialised


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(3, 4), (0, 5), (7,), (1024, 2, 3), (2049, 1024, 1)])
def test_shape_and_dtype(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    like = torch.zeros(2, dtype=dtype)
    assert uninitialised(shape, like).shape == shape
    assert uninitialised(shape, like).dtype == dtype
    assert uninitialised(shape, like, dtype=torch.float64).dtype == torch.float64


def test_large_results_do_not_share_memory() -> None:
    like = torch.zeros(1)
    first, second = uninitialised((1000, 2000), like).fill_(1), uninitialised((1000, 2000), like).fill_(2)
    assert first.nbytes > LARGE
    assert first.is_contiguous()
    assert float(first.sum()) == 2e6
    assert float(second.sum()) == 4e6


def test_device_follows() -> None:
    assert uninitialised((3,), torch.zeros(2, device="meta")).device.type == "meta"
