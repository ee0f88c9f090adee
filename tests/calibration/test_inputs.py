"""A station as a calibration sees it, whole and with a few of its images."""

from __future__ import annotations

import copy

import pytest
import torch

from sparcal.calibration.held_out import make_folds, spaced
from sparcal.calibration.inputs import FEW_IMAGES, CalibrationInputs
from sparcal.detectors import PaDiM, PatchCore
from sparcal.imaging.maps import MapRule
from tests.support.random_grids import PLACE, grids


def inputs(n, detector):
    reference = grids(n, 1)
    fitted = copy.copy(detector).fit(reference)
    own = torch.ones(n), torch.ones(n)
    return CalibrationInputs(
        fitted, reference, [PLACE] * n, [f"h{i}" for i in range(n)], own, make_folds(detector, reference)
    )


@pytest.mark.parametrize("detector", [PaDiM(map_rule=MapRule(8)), PatchCore(coreset=0.2, map_rule=MapRule(8))])
def test_a_small_station_is_taken_whole(detector):
    small = inputs(FEW_IMAGES, detector)
    assert small.few() is small


def test_few_images_are_evenly_spaced_and_a_detector_is_fitted_on_them():
    few = inputs(80, PaDiM(map_rule=MapRule(8))).few()
    kept = spaced(80, FEW_IMAGES)
    assert len(few.reference) == len(few.geometries) == FEW_IMAGES
    assert few.hashes == [f"h{i}" for i in kept]
    assert torch.equal(few.reference.levels[0], grids(80, 1).levels[0][kept])
    expected = PaDiM(map_rule=MapRule(8)).fit(few.reference).score(grids(3, 5))
    torch.testing.assert_close(few.detector.score(grids(3, 5)).image, expected.image)
    assert few.folds.left_out == ()


def test_the_coreset_of_a_few_images_covers_them_without_the_others():
    whole = inputs(80, PatchCore(coreset=0.2, map_rule=MapRule(8)))
    few = whole.few()
    kept = whole.reference[spaced(80, FEW_IMAGES)]
    assert torch.equal(few.reference.levels[0], kept.levels[0])
    assert torch.equal(few.detector.bank_, PatchCore(coreset=0.2, map_rule=MapRule(8)).fit(kept).bank_)


def test_the_whole_is_not_changed():
    whole = inputs(80, PatchCore(coreset=0.2, map_rule=MapRule(8)))
    rows = whole.detector.rows.clone()
    whole.few()
    assert torch.equal(whole.detector.rows, rows)
    assert len(whole.reference) == 80
