"""The first look at a lot's normals: checks, who stands alone under a light, and which planted defects tell something."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sparcal.calibration.calibrate import calibrate
from sparcal.calibration.defaults import AUTO
from sparcal.calibration.screening import UNCHECKED, screen, try_candidate
from sparcal.calibration.selection import CandidateCorrection
from sparcal.calibration.thresholds import find_threshold
from sparcal.station.calibrating import encode_parts
from tests.support.tiny_station import demo, pictures


@pytest.fixture(scope="module")
def shown(station, inputs):
    """Of 8 parts under the lamps of the demonstration one has no company; 6 parts as in training, and 2 of those."""
    lit, plain = demo("lights").lot_good, demo().lot_good
    lots = {2: lit[:2], 8: lit[:8], "mixed": [*plain[:6], *lit[:2]]}
    return {name: encode_parts(station, pictures(lot), inputs.reference, n=20) for name, lot in lots.items()}


def test_the_checks_that_need_no_calibration(inputs, shown):
    screening = screen(inputs, shown[8])
    assert [check.name for check in screening.checks] == [
        "number", "duplicates", "alignment", "odd one out", "alone", "outline", "shift",
    ]  # fmt: skip
    assert screening.shifted
    assert len(screening.held_out.good) == 8
    assert screen(inputs, shown[2]).held_out is None


def test_defects_on_parts_alone_under_their_light_do_not_count(inputs, shown):
    for name, company in ((8, (0, 1, 2, 3, 5, 6, 7)), ("mixed", (0, 1, 2, 3, 4, 5))):
        all_of_them, screening = shown[name].planted, screen(inputs, shown[name])
        assert [not one for one in screening.alone] == [number in company for number in range(8)]
        assert screening.company == company
        kept = [number for number, part in enumerate(all_of_them.part) if part in company]
        assert 0 < len(kept) < len(all_of_them)
        assert screening.parts.planted.defects == tuple(all_of_them.defects[number] for number in kept)
        tried = try_candidate(screening.few, shown[name], CandidateCorrection(UNCHECKED), all_of_them)
        assert torch.equal(screening.held_out.planted.image, tried.planted.image[kept])
        assert len(screening.held_out.good) == 8, "the parts themselves stay"


def test_without_a_word_on_lights_every_defect_counts(inputs, shown):
    screening = screen(inputs, shown[2])
    assert screening.company == (0, 1)
    assert screening.parts is shown[2]


def test_defects_are_scored_only_for_a_comparison(inputs, shown):
    compared, named = screen(inputs, shown[8]), screen(inputs, shown[8], compare=False)
    assert len(compared.held_out.planted) == len(compared.parts.planted)
    assert named.held_out.planted is None
    assert named.checks == compared.checks
    assert (named.alone, named.company) == (compared.alone, compared.company)


@pytest.mark.parametrize(
    ("correction", "learns"), [("sparc-recentred", True), ("normals", True), ("mean-only", False), ("identity", False)]
)
def test_a_part_alone_counts_in_part_where_one_part_teaches_its_light(inputs, shown, correction, learns):
    parts = shown["mixed"]
    outcome = calibrate(inputs, parts, correction=correction, false_reject=0.05, seed=0, progress=lambda *_: None)
    alone = screen(inputs, parts).alone
    assert sum(alone) == 2
    scores = outcome.taken.lot.good.image.tolist()
    own = outcome.taken.own[0].numpy()
    in_part, in_full = (find_threshold(own, scores, 0.05, alone=each) for each in (alone, ()))
    assert in_part.value != in_full.value
    assert outcome.thresholds[0] == (in_part if learns else in_full)


def test_the_choice_compares_good_parts_in_company_alone(inputs, shown):
    """As if the parts that stand alone had been shown, but never judged."""
    outcome = calibrate(inputs, shown["mixed"], correction=AUTO, false_reject=0.05, seed=0, progress=lambda *_: None)
    screening = screen(inputs, shown["mixed"])
    first = outcome.choice.trials[0]
    assert first.correction == UNCHECKED
    good = screening.held_out.good.image[list(screening.company)].numpy()
    planted = screening.held_out.planted.image.numpy()
    wins = (planted[:, None] > good) + 0.5 * (planted[:, None] == good)
    assert first.stands_out == pytest.approx(np.mean(wins))
    assert outcome.self_test.planted == sum(one.plain for one in screening.parts.planted.defects)
    assert {one.part for one in outcome.self_test.defects} == set(screening.company)
