"""SPARC against a per-cell loop in float64, its invariants as properties, and every rejection."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sparcal.errors import DataError, NotFittedError, ShapeError
from sparcal.sparc import RANK_TOLERANCE, SPARC, EvidenceWarning
from sparcal.types import Features
from tests.support.random_features import random_features


def naive_sparc(calibration: np.ndarray, f: np.ndarray, rank: int | None = None) -> np.ndarray:
    """Eqs. 2-8 as they are written, one cell at a time, in float64."""
    k, h, w, _ = calibration.shape
    out = f.astype(np.float64).copy()
    for i in range(h):
        for j in range(w):
            x = calibration[:, i, j].astype(np.float64)
            mu = x.mean(axis=0)
            _, sigma, vt = np.linalg.svd(x - mu, full_matrices=False)
            q = int((sigma > RANK_TOLERANCE * np.linalg.norm(x)).sum())
            v = vt[: min(k - 1 if rank is None else rank, q)]
            for n in range(len(f)):
                out[n, i, j] -= v.T @ (v @ (out[n, i, j] - mu))
    return out


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    k=st.integers(2, 8),
    d=st.sampled_from([3, 7, 24, 65]),
    scale=st.sampled_from([1e-2, 1.0, 50.0]),
    data=st.data(),
)
def test_equals_the_per_cell_loop(seed, k, d, scale, data):
    rank = data.draw(st.one_of(st.none(), st.integers(1, k - 1)))
    calibration = random_features(seed, k, d=d, scale=scale)
    calibration[:, 0, 0] = calibration[0, 0, 0]  # all images coincide here: no direction
    calibration[1, 0, 1] = calibration[0, 0, 1]  # two coincide here: one direction fewer
    f = random_features(seed + 1, 5, d=d, scale=scale)
    # Equal singular values leave a truncated subspace undefined; random Gaussians never have them.
    got = SPARC(rank=rank).fit(Features((calibration,))).apply(Features((f,))).levels[0]
    want = naive_sparc(calibration.numpy(), f.numpy(), rank)
    assert np.abs(got.numpy() - want).max() <= 1e-5 * np.abs(want).max()


def test_cells_whose_images_coincide_keep_no_direction():
    calibration = random_features(0, 8)
    calibration[:, 1, 2] = calibration[0, 1, 2]
    sparc = SPARC().fit(Features((calibration,)))
    assert sparc.rank_[0][1, 2] == 0
    assert sparc.basis_[0][1, 2].abs().max() == 0
    f = random_features(1, 2)
    assert torch.equal(sparc.apply(Features((f,))).levels[0][:, 1, 2], f[:, 1, 2])


@pytest.mark.parametrize(("noise", "expected"), [(1e-8, 0), (1e-2, 7)])
def test_rank_is_judged_against_the_raw_scale(noise, expected):
    """Rounding of a large feature is not disagreement; one percent of it is."""
    base = random_features(0, 1, scale=100.0).expand(8, -1, -1, -1)
    calibration = base * (1 + noise * torch.randn(base.shape, generator=torch.Generator().manual_seed(3)))
    assert SPARC().fit(Features((calibration,))).rank_[0].unique().tolist() == [expected]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), k=st.integers(2, 8))
def test_invariants(seed, k):
    calibration, f = random_features(seed, k), random_features(seed + 1, 4)
    sparc = SPARC().fit(Features((calibration,)))
    once = sparc.apply(Features((f,)))
    tolerance = {"rtol": 0.0, "atol": 2e-5}

    twice = sparc.apply(once).levels[0]
    torch.testing.assert_close(twice, once.levels[0], **tolerance)  # idempotent

    collapsed = sparc.apply(Features((calibration,))).levels[0]
    torch.testing.assert_close(collapsed, sparc.mean_[0].expand_as(collapsed), **tolerance)

    order = torch.randperm(k, generator=torch.Generator().manual_seed(seed))
    shuffled = SPARC().fit(Features((calibration[order],))).apply(Features((f,))).levels[0]
    torch.testing.assert_close(shuffled, once.levels[0], **tolerance)

    v = sparc.basis_[0]
    gram = v @ v.mT
    torch.testing.assert_close(gram, torch.eye(k - 1).expand_as(gram), **tolerance)

    change = f - once.levels[0]
    inside = torch.einsum("nhws,hwsd->nhwd", torch.einsum("nhwd,hwsd->nhws", change, v), v)
    torch.testing.assert_close(inside, change, **tolerance)  # the orthogonal complement is untouched


def test_rank_saturates_at_k_minus_1():
    calibration, f = random_features(0, 5), random_features(1, 3)
    by_default = SPARC().fit(Features((calibration,))).apply(Features((f,))).levels[0]
    assert torch.equal(SPARC(rank=4).fit(Features((calibration,))).apply(Features((f,))).levels[0], by_default)


def test_levels_are_corrected_independently_and_cls_stays():
    calibration = Features((random_features(0, 4), random_features(1, 4, h=2, w=2, d=9)), torch.randn(4, 6))
    f = Features((random_features(2, 3), random_features(3, 3, h=2, w=2, d=9)), torch.randn(3, 6))
    got = SPARC().fit(calibration).apply(f)
    for level in range(2):
        alone = SPARC().fit(Features((calibration.levels[level],))).apply(Features((f.levels[level],)))
        assert torch.equal(got.levels[level], alone.levels[0])
    assert got.cls is f.cls


def test_recentring_moves_only_the_reference_by_the_difference_of_means():
    calibration, reference, f = random_features(0, 8) + 5, random_features(1, 20), random_features(2, 3)
    plain = SPARC().fit(Features((calibration,)))
    recentred = SPARC(recentre="cell").fit(Features((calibration,)), Features((reference,)))
    assert torch.equal(recentred.apply(Features((f,))).levels[0], plain.apply(Features((f,))).levels[0])
    moved = reference + (calibration.mean(dim=0) - reference.mean(dim=0))
    want = plain.apply(Features((moved,))).levels[0]
    got = recentred.apply_reference(Features((reference,))).levels[0]
    torch.testing.assert_close(got, want, rtol=0, atol=2e-5)
    torch.testing.assert_close(got.mean(dim=0), calibration.mean(dim=0), rtol=0, atol=2e-5)


def test_inputs_are_not_changed():
    calibration, f = random_features(0, 4), random_features(1, 3)
    before = calibration.clone(), f.clone()
    SPARC(recentre="cell").fit(Features((calibration,)), Features((f,))).apply(Features((f,)))
    assert torch.equal(calibration, before[0])
    assert torch.equal(f, before[1])


def test_more_images_than_anybody_has_measured_work_and_say_so():
    assert (
        SPARC().fit(Features((random_features(0, 32, d=48),))).basis_[0].shape[2] == 31
    )  # no warning, or it would raise
    with pytest.warns(EvidenceWarning, match="given 33 calibration images: that works, but .* evidence ends at 8"):
        assert SPARC().fit(Features((random_features(0, 33, d=48),))).basis_[0].shape[2] == 32


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_keeps_the_dtype(dtype):
    sparc = SPARC().fit(Features((random_features(0, 4).to(dtype),)))
    assert sparc.apply(Features((random_features(1, 2).to(dtype),))).levels[0].dtype == dtype


@pytest.mark.parametrize(
    ("k", "message"),
    [
        (0, "needs 2 to 8 calibration images, got an empty set: show it good parts of the lot"),
        (1, "needs at least 2 calibration images, got 1: one image has no disagreement"),
    ],
)
def test_too_few_images(k, message):
    with pytest.raises(DataError, match=message):
        SPARC().fit(Features((random_features(0, 2)[:k],)))


@pytest.mark.parametrize("rank", [0, -1])
def test_impossible_rank(rank):
    with pytest.raises(
        DataError, match=f"SPARC.rank must be a whole number of at least 1 or None, got {rank}: leave it"
    ):
        SPARC(rank=rank).fit(Features((random_features(0, 4),)))


@pytest.mark.parametrize("rank", [4, 40])
def test_a_rank_above_k_minus_1_saturates_with_a_warning(rank):
    """Proposition 1: there are no further directions to remove."""
    calibration, f = Features((random_features(0, 4),)), Features((random_features(1, 3),))
    with pytest.warns(EvidenceWarning, match=f"rank is {rank}, but 4 images disagree in at most 3 directions: 3 are"):
        sparc = SPARC(rank=rank).fit(calibration)
    full = SPARC().fit(calibration)
    assert torch.equal(sparc.apply(f).levels[0], full.apply(f).levels[0])
    assert sparc.basis_[0].shape == full.basis_[0].shape


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_not_finite(value):
    calibration = random_features(0, 4)
    calibration[2, 1, 1, 5] = value
    with pytest.raises(
        DataError, match="calibration features must be finite, got NaN or infinity in level 0 of image 2"
    ):
        SPARC().fit(Features((calibration,)))


def test_other_grid():
    sparc = SPARC().fit(Features((random_features(0, 4),)))
    with pytest.raises(ShapeError, match=r"expects the calibrated grids \(h, w, d\) 3x4x24, got 3x5x24: encode"):
        sparc.apply(Features((random_features(0, 2, w=5),)))


def test_not_fitted():
    with pytest.raises(NotFittedError, match="SPARC must be fitted before use"):
        SPARC().apply(Features((random_features(0, 2),)))


def test_recentring_needs_the_reference():
    with pytest.raises(DataError, match="needs the reference features in fit, got none: pass reference="):
        SPARC(recentre="cell").fit(Features((random_features(0, 4),)))
