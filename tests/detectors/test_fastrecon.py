"""FastRecon against the authors' formula with loops and an explicit inverse."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sparcal.detectors import fastrecon
from sparcal.detectors.fastrecon import FastRecon, row_space
from sparcal.errors import DataError, NotFittedError, ShapeError
from sparcal.score import score_lot
from sparcal.sparc import SPARC
from sparcal.types import Features


def images(n: int, *, grid: tuple[int, int, int] = (4, 5, 12), seed: int = 0) -> Features:
    random = torch.Generator().manual_seed(seed)
    mean = torch.randn(grid, generator=torch.Generator().manual_seed(99), dtype=torch.float64)
    return Features((mean + 0.3 * torch.randn(n, *grid, generator=random, dtype=torch.float64),))


def slow_coreset(points: Tensor, size: int) -> Tensor:
    chosen = [0]
    while len(chosen) < size:
        gaps = [min(float((p - points[c]).norm()) for c in chosen) for p in points]
        chosen.append(gaps.index(max(gaps)))
    return points[chosen]


def slow_score(support: Tensor, query: Tensor, share: float, weight: float) -> Tensor:
    """W = (Q S^T + lambda mu S^T) ((1 + lambda) S S^T)^-1, image by image, cell by cell."""
    k, h, w, d = support.shape
    patches = support.reshape(-1, d)
    s = slow_coreset(patches, max(1, int(share * len(patches))))
    inverse = torch.linalg.inv((1 + weight) * s @ s.T)
    cells = torch.empty(len(query), h, w, dtype=query.dtype)
    for i in range(len(query)):
        for a in range(h):
            for b in range(w):
                mean = sum(support[j, a, b] for j in range(k)) / k
                coefficients = (query[i, a, b] @ s.T + weight * (mean @ s.T)) @ inverse
                cells[i, a, b] = (query[i, a, b] - coefficients @ s).norm()
    return cells


@pytest.mark.parametrize(("share", "weight"), [(0.01, 2.0), (0.1, 2.0), (0.1, 0.0), (0.12, 0.5)])
def test_fastrecon_equals_the_formula(share: float, weight: float) -> None:
    support, query = images(4), images(3, seed=1)
    scores = FastRecon(coreset=share, weight=weight).fit(support).score(query)
    expected = slow_score(support.levels[0], query.levels[0], share, weight)
    torch.testing.assert_close(scores.cell, expected, atol=1e-10, rtol=1e-9)
    torch.testing.assert_close(scores.image, expected.flatten(1).max(dim=1).values)


def test_the_defaults_are_the_authors() -> None:
    assert (FastRecon().coreset, FastRecon().weight) == (0.01, 2.0)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.half, 5e-3)])
def test_shorter_features_score_as_float64_ones(dtype: torch.dtype, tolerance: float) -> None:
    support, query = images(4), images(3, seed=1)
    expected = FastRecon(coreset=0.1).fit(support).score(query).cell
    short = [part.map(lambda x: x.to(dtype)) for part in (support, query)]
    cell = FastRecon(coreset=0.1).fit(short[0]).score(short[1]).cell
    assert cell.dtype == torch.float32
    torch.testing.assert_close(cell.double(), expected, atol=tolerance, rtol=tolerance)


def test_blocks_of_images_do_not_change_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    detector, query = FastRecon(coreset=0.1).fit(images(4)), images(5, seed=1)
    whole = detector.score(query).cell
    monkeypatch.setattr(fastrecon, "_CHUNK_BYTES", 2 * 8 * 4 * 5 * 12)
    torch.testing.assert_close(detector.score(query).cell, whole)


def test_duplicate_patches_and_more_patches_than_channels_are_no_trouble() -> None:
    once, query = images(1), images(2, seed=1)
    twice = once[[0, 0, 0]]
    detector = FastRecon(coreset=1.0, weight=0.0).fit(twice)
    assert detector.basis_.shape == (12, 12)
    assert detector.score(query).cell.max() < 1e-10
    narrow = FastRecon(coreset=0.1, weight=2.0)
    torch.testing.assert_close(
        narrow.fit(Features((torch.ones_like(twice.levels[0]),))).score(query).cell,
        slow_score(torch.ones(1, 4, 5, 12, dtype=torch.float64), query.levels[0], 0.01, 2.0),
    )


def test_a_support_that_a_correction_has_made_equal_still_scores() -> None:
    support, query = images(3), images(2, seed=1)
    scores = score_lot(FastRecon(coreset=0.1), query, reference=support, calibration=support, correction=SPARC())
    assert torch.isfinite(scores.cell).all()


@settings(deadline=None, max_examples=30)
@given(m=st.integers(1, 8), rank=st.integers(1, 8), d=st.integers(1, 8), seed=st.integers(0, 10**6))
def test_row_space_is_orthonormal_and_holds_every_row(m: int, rank: int, d: int, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    points = torch.randn(m, rank, generator=random) @ torch.randn(rank, d, generator=random)
    basis = row_space(points)
    assert len(basis) <= min(m, rank, d)
    torch.testing.assert_close(basis @ basis.T, torch.eye(len(basis)), atol=1e-5, rtol=0)
    torch.testing.assert_close(points @ basis.T @ basis, points, atol=1e-4, rtol=1e-4)


def test_row_space_of_nothing_is_empty() -> None:
    assert row_space(torch.zeros(3, 5)).shape == (0, 5)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"coreset": 0.0}, r"FastRecon.coreset must be in \(0, 1\], got 0.0: "),
        ({"coreset": 1.5}, r"FastRecon.coreset must be in \(0, 1\], got 1.5: "),
        ({"weight": -1.0}, r"FastRecon.weight must be a finite number of at least 0, got -1.0: 0 ignores"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, float], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        FastRecon(**settings)


def test_another_grid_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"fitted on a grid of 4x5 cells, got 5x5: encode support"):
        FastRecon(coreset=0.1).fit(images(2)).score(images(2, grid=(5, 5, 12)))


def test_no_support_and_no_fit_are_refused() -> None:
    with pytest.raises(DataError, match="FastRecon needs reference features of normal images, got none"):
        FastRecon().fit(None)
    with pytest.raises(NotFittedError, match=r"call FastRecon\.fit first"):
        FastRecon().score(images(1))
