"""Features that nothing can be computed from are refused, with what was expected and what came."""

from __future__ import annotations

import math

import pytest
import torch

from sparcal.errors import DataError, ShapeError
from sparcal.feature_checks import (
    check_encoded,
    check_finite,
    check_given,
    check_grid,
    check_reference,
    check_scores,
    only_grid,
)
from sparcal.types import Features, Scores

GOOD = Features((torch.zeros(3, 2, 2, 4),))
MEAN = (torch.zeros(2, 2, 4),)


def test_what_is_right_passes():
    check_finite(GOOD, "x")
    check_given(None, "x")
    check_given(GOOD, "x")
    check_reference(GOOD, "x")
    check_grid(GOOD, MEAN, "x")
    assert only_grid(MEAN, "x") is MEAN[0]


def test_a_nan_names_its_image():
    level = torch.zeros(3, 2, 2, 4)
    level[1, 0, 0, 0] = math.nan
    with pytest.raises(
        DataError, match="The features must be finite, got NaN or infinity in level 0 of image 1: check"
    ):
        check_finite(Features((level,)), "The features")


def test_no_reference_image_at_all():
    with pytest.raises(DataError, match="Coral needs reference features of normal images, got 0 images"):
        check_reference(GOOD[:0], "Coral")


def test_something_that_is_no_features():
    with pytest.raises(ShapeError, match="SPARC's reference must be Features, got a Tensor"):
        check_given(torch.zeros(2), "SPARC")  # type: ignore[arg-type]


def test_another_grid_and_another_type():
    with pytest.raises(ShapeError, match=r"expects the calibrated grids \(h, w, d\) 2x2x4, got 2x2x5"):
        check_grid(Features((torch.zeros(3, 2, 2, 5),)), MEAN, "SPARC.apply")
    with pytest.raises(ShapeError, match=r"of the type it was calibrated on, torch.float32, got torch.float64"):
        check_grid(Features((torch.zeros(3, 2, 2, 4, dtype=torch.float64),)), MEAN, "SPARC.apply")


def test_several_grids_cannot_be_exported():
    with pytest.raises(ShapeError, match="SPARC can be exported for one grid of features, got 2 levels"):
        only_grid(MEAN * 2, "SPARC")


def test_what_another_encoder_gives_is_looked_at():
    good = Features((torch.zeros(2, 3, 3, 4),))
    assert check_encoded(good, 2, "mine") is good
    for wrong, got in (
        (None, "must be Features"),
        (torch.zeros(2, 3, 3, 4), "must be Features"),
        (good[:1], "The encoder mine must give features .* got 1 for 2"),
        (Features((torch.zeros(2, 3, 3, 0),)), "got nothing in level 0"),
    ):
        with pytest.raises((DataError, ShapeError), match=got):
            check_encoded(wrong, 2, "mine")


def test_what_another_detector_gives_is_looked_at():
    good = Scores(torch.zeros(2), torch.zeros(2, 3, 3))
    check_scores(good, 2, "Mine")
    for wrong, got in ((None, "got a NoneType"), (torch.zeros(2), "got a Tensor"), (good[:1], "got 1 for 2")):
        with pytest.raises(ShapeError, match=f"The detector Mine must give Scores .*{got}"):
            check_scores(wrong, 2, "Mine")
