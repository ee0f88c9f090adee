"""SubspaceAD against scikit-learn and slow, obvious formulas."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sparcal.detectors import subspacead
from sparcal.detectors.subspacead import SubspaceAD, mean_covariance, principal_subspace
from sparcal.errors import DataError
from sparcal.imaging.maps import input_map
from sparcal.testing import normal_features
from sparcal.types import Features

make = normal_features((5, 4, 12))


@pytest.mark.parametrize("explained", [0.5, 0.9, 0.99])
def test_score_is_the_squared_residual_of_scikit_learns_pca(explained: float) -> None:
    from sklearn.decomposition import PCA

    reference, features = make(6, 0), make(2, 50)
    detector = SubspaceAD(explained=explained).fit(reference)
    pca = PCA(n_components=explained, svd_solver="full").fit(reference.levels[0].flatten(0, 2).double().numpy())
    assert detector.rank_ == pca.n_components_
    x = features.levels[0].flatten(0, 2).double().numpy()
    expected = ((x - pca.inverse_transform(pca.transform(x))) ** 2).sum(axis=1)
    np.testing.assert_allclose(detector.score(features).cell.flatten().numpy(), expected, rtol=1e-5)


def test_state_is_an_orthonormal_basis_in_float64() -> None:
    detector = SubspaceAD().fit(make(6, 0))
    assert detector.basis_.dtype == detector.mean_.dtype == torch.float64
    assert detector.basis_.shape == (12, detector.rank_)
    torch.testing.assert_close(detector.basis_.mT @ detector.basis_, torch.eye(detector.rank_, dtype=torch.float64))


def test_rank_is_the_smallest_that_reaches_the_share() -> None:
    covariance = torch.diag(torch.tensor([1.0, 6.0, 3.0], dtype=torch.float64))
    for explained, rank in [(0.5, 1), (0.6, 1), (0.61, 2), (0.9, 2), (0.91, 3), (1.0, 3)]:
        assert principal_subspace(covariance, explained).shape == (3, rank)


def test_mean_and_covariance_are_numpys_for_any_block_size(monkeypatch: pytest.MonkeyPatch) -> None:
    level = make(7, 0).levels[0] + 50
    points = level.flatten(0, 2).double().numpy()
    for block_bytes in (1, 5000, 2**26):
        monkeypatch.setattr(subspacead, "_CHUNK_BYTES", block_bytes)
        mean, covariance = mean_covariance(level)
        np.testing.assert_allclose(mean.numpy(), points.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(covariance.numpy(), np.cov(points, rowvar=False), rtol=1e-9, atol=1e-12)


def test_image_score_is_the_mean_of_the_top_percent_of_map_pixels() -> None:
    detector = SubspaceAD(explained=0.5).fit(make(6, 0))
    features = make(18, 50)
    scores = detector.score(features)
    for image, cell in zip(scores.image, scores.cell, strict=True):
        pixels = input_map(cell[None], detector.map_rule).flatten()
        count = len(pixels) // 100
        assert len(pixels) == 5 * 14 * 4 * 14
        torch.testing.assert_close(image, pixels.sort(descending=True).values[:count].mean())


def test_features_without_variance_leave_the_distance_to_the_mean() -> None:
    constant = Features((torch.full((2, 3, 3, 4), 2.0),))
    detector = SubspaceAD().fit(constant)
    assert detector.rank_ == 0
    scores = detector.score(Features((torch.full((1, 3, 3, 4), 3.0),)))
    torch.testing.assert_close(scores.cell, torch.full((1, 3, 3), 4.0))


def test_features_within_the_subspace_score_zero() -> None:
    random = torch.Generator().manual_seed(0)
    factors = torch.randn(3, 12, generator=random)
    reference = torch.randn(4, 5, 4, 3, generator=random) @ factors
    detector = SubspaceAD(explained=1 - 1e-9).fit(Features((reference,)))
    assert detector.rank_ == 3
    inside = torch.randn(1, 5, 4, 3, generator=random) @ factors
    assert float(detector.score(Features((inside,))).cell.max()) < 1e-9


@pytest.mark.parametrize("explained", [0.0, 1.1, -1.0])
def test_explained_outside_its_range_is_refused(explained: float) -> None:
    with pytest.raises(DataError, match=r"SubspaceAD.explained must be in \(0, 1\], got"):
        SubspaceAD(explained=explained).fit(make(2, 0))
