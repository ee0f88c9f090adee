"""score_lot: which side is corrected, what stays unchanged, and the exact cases that the paper implies."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

import pytest
import torch

from sparcal.corrections import CORRECTIONS, Identity, MeanOnly
from sparcal.detectors import SPADE, PaDiM, PatchCore
from sparcal.errors import DataError
from sparcal.imaging.maps import MapRule
from sparcal.score import score_lot
from sparcal.sparc import SPARC
from sparcal.types import Features, Scores
from tests.support.random_features import random_features


@dataclass
class Recorder:
    """A detector that keeps what it was given."""

    family: str = "reference"
    map_rule: MapRule = MapRule(cell_pixels=1)
    seen: list = field(default_factory=list)

    def fit(self, reference):
        self.seen.append(reference)
        return self

    def score(self, features):
        self.seen.append(features)
        return Scores(torch.zeros(len(features)), torch.zeros(len(features), 3, 4))


def lot():
    return Features((random_features(0, 5),)), Features((random_features(1, 12),)), Features((random_features(2, 4),))


@pytest.mark.parametrize(("on", "reference_side", "test_side"), [("both", True, True), ("reference", True, False), ("test", False, True)])  # fmt: skip
def test_on_chooses_the_sides(on, reference_side, test_side):
    calibration, reference, test = lot()
    sparc = SPARC().fit(calibration)
    recorder = Recorder()
    score_lot(recorder, test, reference=reference, calibration=calibration, correction=SPARC(on=on))
    fitted, scored = recorder.seen
    assert torch.equal(fitted.levels[0], (sparc.apply(reference) if reference_side else reference).levels[0])
    assert torch.equal(scored.levels[0], (sparc.apply(test) if test_side else test).levels[0])


def test_neither_detector_nor_correction_is_changed():
    calibration, reference, test = lot()
    detector, correction = PatchCore(coreset=1.0), SPARC()
    before = copy.copy(detector), copy.copy(correction)
    score_lot(detector, test, reference=reference, calibration=calibration, correction=correction)
    assert detector.bank_ is None
    assert correction.basis_ is None
    assert (detector, correction) == before


def test_same_inputs_same_bytes():
    calibration, reference, test = lot()
    runs = [
        score_lot(PatchCore(), test, reference=reference, calibration=calibration, correction=SPARC()) for _ in range(2)
    ]
    assert torch.equal(runs[0].image, runs[1].image)
    assert torch.equal(runs[0].cell, runs[1].cell)


def test_mean_only_changes_nothing_in_padim_and_in_spades_image_score():
    """PaDiM's Gaussians and SPADE's pooled Euclidean descriptor do not see a constant per cell."""
    calibration, reference, test = lot()

    def scores(detector, correction):
        return score_lot(detector, test, reference=reference, calibration=calibration, correction=correction)

    padim = [scores(PaDiM(map_rule=MapRule(cell_pixels=1)), correction) for correction in (Identity(), MeanOnly())]
    torch.testing.assert_close(padim[0].cell, padim[1].cell, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(padim[0].image, padim[1].image, rtol=1e-5, atol=1e-5)
    spade = [scores(SPADE(cell_pixels=1), correction) for correction in (Identity(), MeanOnly())]
    torch.testing.assert_close(spade[0].image, spade[1].image, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", CORRECTIONS)
def test_every_correction_scores(name):
    calibration, reference, test = lot()
    scores = score_lot(
        PatchCore(coreset=1.0), test, reference=reference, calibration=calibration, correction=CORRECTIONS[name]()
    )
    assert torch.isfinite(scores.image).all()


@pytest.mark.parametrize("side", ["test", "reference"])
def test_features_that_are_not_finite(side):
    calibration, reference, test = lot()
    (test if side == "test" else reference).levels[0][1, 0, 0, 0] = float("nan")
    with pytest.raises(
        DataError, match=f"The {side} features must be finite, got NaN or infinity in level 0 of image 1"
    ):
        score_lot(PatchCore(), test, reference=reference, calibration=calibration, correction=SPARC())
