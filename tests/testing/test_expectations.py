"""The published checks find what is wrong: each broken detector, correction or encoder fails the check that is about it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from sparcal.corrections import MeanOnly
from sparcal.detectors import PatchCore
from sparcal.errors import DataError
from sparcal.imaging.preprocess import Preprocess
from sparcal.testing import (
    CorrectionCase,
    DetectorCase,
    EncoderCase,
    correction_checks,
    detector_checks,
    encoder_checks,
    normal_features,
)
from sparcal.testing.expectations import must_hold, refuses
from sparcal.types import Features, Scores

one_grid = normal_features((6, 8, 16))


@dataclass
class Counting(PatchCore):
    """Adds how often it was fitted to its scores."""

    fits: int = 0

    def fit(self, reference):
        self.fits += 1
        return super().fit(reference)

    def score(self, features):
        scores = super().score(features)
        return Scores(scores.image + self.fits, scores.cell + self.fits)


@dataclass
class Meddling(PatchCore):
    """Scales the features that it is given."""

    def score(self, features):
        for level in features.levels:
            level.mul_(2)
        return super().score(features)


@dataclass
class Blind(PatchCore):
    """Scores whole images alike."""

    def score(self, features):
        scores = super().score(features)
        return Scores(scores.image, scores.image[:, None, None].expand_as(scores.cell))


@dataclass
class Vague(PatchCore):
    """Refuses without saying why."""

    def score(self, features):
        if len(features) == 0:
            raise DataError("no")
        return super().score(features)


@dataclass
class Forgetful(MeanOnly):
    """Loses the image vectors."""

    def apply(self, features):
        return Features(super().apply(features).levels)


@dataclass
class Ordered(MeanOnly):
    """Learns from the first image alone."""

    def fit(self, calibration, reference=None):
        return super().fit(calibration[[0, 0]] if len(calibration) > 1 else calibration, reference)


@dataclass
class Growing:
    """Names itself anew each time, and gives features of the wrong size."""

    cell_pixels: int = 8

    @property
    def id(self):
        return f"growing\n{id(self)}"

    @property
    def preprocess(self):
        return Preprocess(size=32, resize="square")

    def __call__(self, pixels):
        return Features((pixels.permute(0, 2, 3, 1)[:, ::4, ::4],))


def failing(checks):
    broken = set()
    for name, check in checks.items():
        try:
            check()
        except AssertionError as error:
            broken.add(name if str(error) else f"{name} without a sentence")
        except DataError:
            broken.add(name)
    return broken


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (PatchCore, set()),
        (Counting, {"fitting_again_forgets"}),
        (
            Meddling,
            {"inputs_stay_unchanged", "saving_and_loading_changes_nothing", "single_image_scores_as_in_a_batch"},
        ),
        (Blind, {"planted_outlier_scores_highest"}),
        (Vague, {"scoring_no_image_is_refused"}),
    ],
)
def test_a_broken_detector_is_found(kind, expected):
    found = failing(detector_checks(DetectorCase(kind.__name__, kind, one_grid)))
    assert expected <= found
    assert (found == set()) == (expected == set())


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (MeanOnly, set()),
        (Forgetful, {"apply_keeps_grids_types_and_image_vectors"}),
        (Ordered, {"order_of_the_normals_does_not_matter"}),
    ],
)
def test_a_broken_correction_is_found(kind, expected):
    found = failing(correction_checks(CorrectionCase(kind.__name__, kind)))
    assert expected <= found
    assert (found == set()) == (expected == set())


def test_a_broken_encoder_is_found():
    found = failing(encoder_checks(EncoderCase("growing", Growing)))
    assert {"keeps_the_protocol", "the_id_is_stable_and_one_line", "grids_are_channels_last_and_finite"} <= found


def test_a_check_says_what_was_expected():
    with pytest.raises(AssertionError, match="Expected: water is wet."):
        must_hold(False, "water is wet")
    with (
        pytest.raises(AssertionError, match="Expected: SPARC refuses it with a DataError."),
        refuses(DataError, "SPARC"),
    ):
        pass
    with pytest.raises(AssertionError, match="the refusal gives a remedy"), refuses(DataError, "SPARC"):
        raise DataError("SPARC got nothing.")
    with pytest.raises(ZeroDivisionError), refuses(DataError, "SPARC"):
        _ = 1 / 0
