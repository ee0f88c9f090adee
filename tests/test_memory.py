"""Memory for large results has the shape, dtype and device asked for, and belongs to its tensor alone."""

from __future__ import annotations

import os
import resource

import pytest
import torch

from sparcal.memory import LARGE, hold_freed_memory, mean_of_images, uninitialised


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


def test_the_mean_of_images_is_that_of_float64() -> None:
    x = 1000 + torch.randn(9, 3, 4, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(mean_of_images(x), x.double().mean(dim=0), rtol=1e-14, atol=0)


def test_memory_that_is_freed_is_not_cleared_anew() -> None:
    if not hold_freed_memory():
        pytest.skip("not glibc, or set in the environment")

    def faults() -> int:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(8):
            torch.empty(5 * 2**20, dtype=torch.float32).fill_(1)
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    faults()
    assert faults() < 5 * 2**20 * 4 // os.sysconf("SC_PAGESIZE")  # eight blocks would be eight times as many


@pytest.mark.parametrize("name", ["MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"])
def test_what_the_environment_says_about_memory_stays(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "1")
    assert not hold_freed_memory()
