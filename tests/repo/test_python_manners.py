"""What Python people expect of every detector and correction: they clone, pickle and copy."""

from __future__ import annotations

import copy

import pytest
import torch
from sklearn.base import clone

from sparcal.corrections import CORRECTIONS
from sparcal.detectors import DETECTORS
from sparcal.testing import normal_features
from tests.support.pickled import pickled

make = normal_features((3, 4, 6))
THINGS = {**DETECTORS, **CORRECTIONS}


@pytest.mark.parametrize("name", THINGS)
def test_scikit_learn_clones_it_unfitted(name):
    thing = THINGS[name]()
    again = clone(thing)
    assert type(again) is type(thing)
    assert again is not thing
    assert again.get_params() == thing.get_params() != {}
    assert again == thing


def test_a_clone_forgets_what_was_learned():
    fitted = CORRECTIONS["sparc"](rank=2).fit(make(4, 0))
    again = clone(fitted)
    assert (again.rank, again.mean_) == (2, None)


@pytest.mark.parametrize("copied", [copy.deepcopy, pickled])
@pytest.mark.parametrize("name", ["patchcore", "padim", "spade", "subspacead"])
def test_a_fitted_detector_pickles(name, copied):
    detector = DETECTORS[name]().fit(make(8, 0))
    assert torch.equal(copied(detector).score(make(2, 1)).cell, detector.score(make(2, 1)).cell)


@pytest.mark.parametrize("name", CORRECTIONS)
def test_a_fitted_correction_pickles(name):
    correction = CORRECTIONS[name]().fit(make(4, 0), make(8, 1))
    again = pickled(correction)
    assert torch.equal(again.apply(make(2, 2)).levels[0], correction.apply(make(2, 2)).levels[0])


def test_features_and_scores_pickle():
    features = make(2, 0)
    assert torch.equal(pickled(features).levels[0], features.levels[0])
    scores = DETECTORS["patchcore"]().fit(make(8, 0)).score(features)
    assert torch.equal(pickled(scores).cell, scores.cell)
