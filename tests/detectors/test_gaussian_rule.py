"""PaDiM's whiteners against the inverse covariance of numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sparcal.detectors.gaussian_rule import cell_whiteners, whitener_of_factor, whitener_of_kernel
from sparcal.detectors.padim import PaDiM
from sparcal.types import Features


@pytest.mark.parametrize("images", [4, 30])
def test_whitening_rows_give_the_inverse_covariance(images):
    random, ridge, c = torch.Generator().manual_seed(0), 0.01, 7
    level = torch.randn(images, 2, 3, c, generator=random) * torch.logspace(1, -2, c)
    detector = PaDiM(ridge=ridge).fit(Features((level,)))
    if detector.kernel_ is not None:
        rows = whitener_of_kernel(detector.kernel_.flatten(0, 1))
    else:
        rows = whitener_of_factor(detector.factor_.flatten(0, 1), c, ridge)
    root = (torch.eye(c, dtype=torch.float64) - rows.mT @ rows) / ridge**0.5
    for cell, half in zip(level.flatten(1, 2).transpose(0, 1), root, strict=True):
        covariance = np.cov(cell.double().numpy(), rowvar=False) + ridge * np.eye(c)
        np.testing.assert_allclose(half @ half, np.linalg.inv(covariance), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("images", [4, 30])
def test_whiteners_are_those_of_each_cell(images, monkeypatch):
    level = torch.randn(images, 2, 3, 5, generator=torch.Generator().manual_seed(0))
    detector = PaDiM().fit(Features((level,)))
    state = detector.kernel_ if detector.kernel_ is not None else detector.factor_
    whole = cell_whiteners(state, channels=5, ridge=0.01)
    monkeypatch.setattr("sparcal.detectors.gaussian_rule._CHUNK_BYTES", 1)
    assert torch.equal(cell_whiteners(state, channels=5, ridge=0.01), whole)
    assert whole.shape == (2, 3, min(images - 1, 5), 5)
