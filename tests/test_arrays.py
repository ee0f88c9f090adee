"""NumPy in and out: features and scores from arrays, and back."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sparcal import SPARC, Features, Scores, score_lot
from sparcal.arrays import from_array
from sparcal.detectors import PatchCore
from sparcal.errors import ShapeError


def grids(n, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).normal(size=(n, 3, 4, 8)).astype(dtype)


def test_features_of_arrays_are_features_of_tensors():
    features = Features((grids(5),), np.ones((5, 2), np.float32))
    assert torch.equal(features.levels[0], torch.from_numpy(grids(5)))
    assert features.cls.shape == (5, 2)
    (back,) = features.numpy()
    np.testing.assert_array_equal(back, grids(5))
    assert repr(features) == "<Features of 5 images: 3 x 4 x 8, cls 2, float32>"


def test_the_whole_method_runs_on_arrays():
    reference, normals, test = (Features((grids(n, seed),)) for n, seed in ((12, 0), (4, 1), (3, 2)))
    scores = score_lot(PatchCore(), test, reference=reference, calibration=normals, correction=SPARC())
    image, cell = scores.numpy()
    assert image.shape == (3,)
    assert cell.shape == (3, 3, 4)
    again = Scores(image, cell)
    assert torch.equal(again.cell, scores.cell)
    assert repr(scores) == f"<Scores of 3 images: {image.min():.4g} to {image.max():.4g}, cells 3 x 4, float32>"
    assert repr(scores[:0]) == "<Scores of 0 images: none, cells 3 x 4, float32>"


@pytest.mark.parametrize(
    "change", [lambda x: x[::-1], lambda x: x.astype(">f4"), np.asfortranarray, lambda x: x[:, :, ::2]]
)
def test_arrays_of_any_layout_are_taken(change):
    array = change(grids(4))
    np.testing.assert_array_equal(from_array(array).numpy(), array)


def test_an_array_that_cannot_be_written_is_copied_and_one_that_can_is_not():
    array = grids(2)
    assert from_array(array).data_ptr() == array.ctypes.data
    array.flags.writeable = False
    assert from_array(array).data_ptr() != array.ctypes.data


def test_arrays_of_other_things_are_refused():
    with pytest.raises(ShapeError, match="level 0 must be a floating tensor .* got \\(5, 3, 4, 8\\) torch.int64"):
        Features((grids(5).astype(np.int64),))
    with pytest.raises(ShapeError, match="level 0 must be a floating tensor .* got ndarray"):
        Features((np.array(["a"]),))
