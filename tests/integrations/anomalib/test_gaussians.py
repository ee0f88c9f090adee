"""Padim's Gaussians against anomalib's own loop."""

from __future__ import annotations

import pytest
import torch
from anomalib.models.components.stats.multi_variate_gaussian import MultiVariateGaussian

from sparcal.integrations.anomalib.gaussians import cell_gaussians


@pytest.mark.parametrize("n", [2, 8, 30], ids=["two", "fewer images than channels", "more"])
def test_all_cells_at_once_are_what_anomalib_computes_one_by_one(n: int) -> None:
    level = torch.randn(n, 3, 4, 12, generator=torch.Generator().manual_seed(n)) * 0.3 + 1
    expected = MultiVariateGaussian()
    expected.fit(level.permute(0, 3, 1, 2).contiguous())
    mean, inverse = cell_gaussians(level)
    assert (mean.dtype, inverse.dtype) == (torch.float32, torch.float32)
    torch.testing.assert_close(mean, expected.mean, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(inverse, expected.inv_covariance, rtol=1e-3, atol=1e-3)
