"""PaDiM against the textbook route: one covariance per cell, inverted."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sparcal.detectors import padim
from sparcal.detectors.padim import PaDiM, draw_channels
from sparcal.errors import DataError, ShapeError
from sparcal.imaging.maps import MapRule, input_map
from sparcal.testing import normal_features
from sparcal.types import Features


def textbook(reference: torch.Tensor, test: torch.Tensor, ridge: float = 0.01) -> np.ndarray:
    """Mahalanobis distance, cell by cell and image by image, through the inverse covariance."""
    x, z = reference.double().numpy(), test.double().numpy()
    n, h, w, d = z.shape
    out = np.empty((n, h, w))
    for y in range(h):
        for c in range(w):
            inverse = np.linalg.inv(np.cov(x[:, y, c], rowvar=False).reshape(d, d) + ridge * np.eye(d))
            mean = x[:, y, c].mean(axis=0)
            for i in range(n):
                out[i, y, c] = np.sqrt((z[i, y, c] - mean) @ inverse @ (z[i, y, c] - mean))
    return out


@pytest.mark.parametrize(("images", "channels"), [(5, 20), (20, 20), (21, 20), (22, 20), (60, 20), (2, 3), (4, 1)])
def test_both_routes_equal_the_textbook(images: int, channels: int) -> None:
    make = normal_features((3, 4, channels))
    reference, test = make(images, 0), make(3, 50)
    detector = PaDiM().fit(reference.map(torch.Tensor.double))
    assert (detector.kernel_ is not None) == (images - 1 < channels)
    assert (detector.factor_ is None) == (images - 1 < channels)
    scores = detector.score(test.map(torch.Tensor.double))
    np.testing.assert_allclose(scores.cell.numpy(), textbook(reference.levels[0], test.levels[0]), rtol=1e-6)


@settings(max_examples=40, deadline=None)
@given(
    images=st.integers(2, 12),
    channels=st.integers(1, 12),
    scale=st.sampled_from([1e-3, 1.0, 30.0]),
    offset=st.sampled_from([0.0, 100.0]),
    rank=st.integers(0, 3),
    seed=st.integers(0, 2**16),
)
def test_equals_the_textbook_on_any_spectrum(
    images: int, channels: int, scale: float, offset: float, rank: int, seed: int
) -> None:
    """Also where features are constant, of low rank, far from zero, or where test features lie in their span."""
    random = torch.Generator().manual_seed(seed)
    factors = torch.randn(rank, channels, generator=random, dtype=torch.float64) * scale

    def draw(n: int) -> torch.Tensor:
        return offset + (torch.randn(n, 1, 2, rank, generator=random, dtype=torch.float64) @ factors)

    reference, test = draw(images), draw(3)
    test[0] += 0.1
    scores = PaDiM().fit(Features((reference,))).score(Features((test,)))
    np.testing.assert_allclose(scores.cell.numpy(), textbook(reference, test), rtol=1e-6, atol=1e-6)


def test_image_score_is_the_maximum_of_the_smoothed_map() -> None:
    make = normal_features((6, 6, 4))
    rule = MapRule(cell_pixels=4, sigma=2.0)
    scores = PaDiM(map_rule=rule).fit(make(8, 0)).score(make(20, 9))
    for image, cell in zip(scores.image, scores.cell, strict=True):
        torch.testing.assert_close(image, input_map(cell[None], rule).max())
        assert image < cell.max()


def test_channels_are_the_published_ones() -> None:
    chosen = draw_channels(1792, 550, 1024)
    assert chosen[:10].tolist() == [1632, 39, 990, 1740, 797, 661, 1698, 1623, 1782, 1064]
    layers = torch.bucketize(chosen, torch.tensor([256, 768]), right=True).bincount()
    assert layers.tolist() == [82, 154, 314]
    assert len(chosen.unique()) == 550


def test_all_channels_are_kept_when_there_are_few() -> None:
    assert draw_channels(550, 550, 0).tolist() == list(range(550))


def test_only_the_drawn_channels_count() -> None:
    make = normal_features((2, 2, 10))
    reference, test = make(6, 0), make(2, 1)
    detector = PaDiM(dimension=4).fit(reference)
    left = [c for c in range(10) if c not in detector.channels_.tolist()]
    changed = test.levels[0].clone()
    changed[..., left] += 100
    assert torch.equal(detector.score(Features((changed,))).cell, detector.score(test).cell)
    expected = textbook(reference.levels[0][..., detector.channels_], test.levels[0][..., detector.channels_])
    np.testing.assert_allclose(detector.score(test).cell.numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize("images", [4, 30])
def test_blocks_of_cells_change_nothing(images: int, monkeypatch: pytest.MonkeyPatch) -> None:
    make = normal_features((3, 5, 8))
    whole = PaDiM().fit(make(images, 0)).score(make(4, 9))
    monkeypatch.setattr(padim, "_CHUNK_BYTES", 1)
    cell_by_cell = PaDiM().fit(make(images, 0)).score(make(4, 9))
    torch.testing.assert_close(cell_by_cell.cell, whole.cell, rtol=1e-6, atol=0)


def test_refitting_with_the_other_route_drops_the_first() -> None:
    make = normal_features((2, 2, 6))
    detector = PaDiM().fit(make(3, 0)).fit(make(30, 0))
    assert detector.kernel_ is None
    assert torch.equal(detector.score(make(2, 1)).cell, PaDiM().fit(make(30, 0)).score(make(2, 1)).cell)


def test_one_reference_image_is_refused() -> None:
    with pytest.raises(ShapeError, match="PaDiM needs at least 2 reference images, got 1: one image has no covariance"):
        PaDiM().fit(normal_features((2, 2, 3))(1, 0))


def test_another_grid_is_refused() -> None:
    detector = PaDiM().fit(normal_features((2, 3, 4))(4, 0))
    with pytest.raises(
        ShapeError, match="one Gaussian per cell of a 2x3 grid, got features on 3x2: encode at the size"
    ):
        detector.score(normal_features((3, 2, 4))(1, 0))


def test_a_ridge_of_zero_is_refused() -> None:
    with pytest.raises(DataError, match=r"PaDiM.ridge must be a finite number above 0, got 0.0: it keeps"):
        PaDiM(ridge=0.0).fit(normal_features((2, 2, 3))(4, 0))


@pytest.mark.parametrize("images", [4, 30])
@pytest.mark.parametrize("scale", [1e12, 1e18])
def test_features_beside_which_the_ridge_is_lost_are_refused(images: int, scale: float) -> None:
    """Both routes factor a matrix that only the ridge makes invertible; here it has been rounded away."""
    flat = normal_features((2, 2, 6))(images, 0).levels[0] * scale
    flat[..., 1:] = flat[..., :1]
    features = Features((torch.cat([flat[:2], flat[:2], flat[4:]]),))
    with pytest.raises(DataError, match=r"a ridge of 0.01 still counts, got squared .*: scale the features down, or"):
        PaDiM().fit(features)


@pytest.mark.slow
def test_ten_times_faster_than_the_textbook_at_published_size() -> None:
    """100 images of 550 channels; the time per cell does not depend on how many of the 56 x 56 cells are taken."""
    make = normal_features((6, 6, 550))
    reference, test = make(100, 0), make(10, 9)
    start = time.process_time()
    scores = PaDiM().fit(reference).score(test)
    ours = time.process_time() - start
    start = time.process_time()
    expected = textbook(reference.levels[0], test.levels[0])
    theirs = time.process_time() - start
    np.testing.assert_allclose(scores.cell.numpy(), expected, rtol=1e-6)
    assert theirs > 10 * ours
