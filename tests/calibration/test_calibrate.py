"""A calibration from end to end, without a folder: what is chosen, promised, tested and checked."""

from __future__ import annotations

import re

import pytest

from sparcal.calibration.calibrate import calibrate, preview
from sparcal.calibration.defaults import AUTO
from sparcal.calibration.screening import UNCHECKED, screen
from sparcal.calibration.selection import candidates
from sparcal.calibration.self_test import count_found
from sparcal.calibration.thresholds import find_threshold
from sparcal.corrections import STATION_REFERENCE
from sparcal.station.calibrating import encode_parts
from tests.support.tiny_station import demo, pictures


@pytest.fixture(scope="module")
def shown(station, inputs):
    return {k: encode_parts(station, pictures(demo("lights").lot_good[:k]), inputs.reference, n=20) for k in (2, 8)}


def run(inputs, parts, correction=AUTO, **changed):
    steps = []
    outcome = calibrate(
        inputs,
        parts,
        correction=correction,
        false_reject=0.05,
        seed=4,
        progress=lambda done, total: steps.append((done, total)),
        **changed,
    )
    assert steps == [(number, 5) for number in range(1, 6)]
    return outcome


def test_auto_compares_every_candidate_and_takes_one_of_them(inputs, shown):
    outcome = run(inputs, shown[8])
    compared = [(one.correction, dict(one.settings)) for one in outcome.choice.trials]
    assert compared == [(one.name, dict(one.settings)) for one in candidates(8)]
    assert (outcome.choice.correction, dict(outcome.choice.settings)) in compared
    assert outcome.taken.name == outcome.choice.correction
    rejected = re.match(
        r"At its own threshold the station would reject (\d) of 8 good parts of this lot\. ", outcome.choice.sentence
    )
    assert rejected is not None
    assert int(rejected[1]) == int((outcome.lot_base > find_threshold(inputs.own[0].numpy(), [], 0.05).value).sum())
    counted = [one for one, part in zip(shown[8].planted.defects, shown[8].planted.part, strict=True) if part != 4]
    planted = sum(one.plain for one in counted)  # part 4 stands alone under its light
    start = f"Of {planted} planted defects the station's own reference "
    assert outcome.choice.sentence[rejected.end() :].startswith(start)
    best = max(outcome.choice.trials, key=lambda one: one.stands_out)
    taken = next(one for one in outcome.choice.trials if one.correction == outcome.choice.correction)
    assert best.behind == 0
    assert taken.behind <= 1


def test_the_threshold_and_the_self_test_rest_on_parts_left_out(inputs, shown):
    outcome = run(inputs, shown[8], "sparc-recentred")
    lot = outcome.taken.lot
    alone = screen(inputs, shown[8]).alone
    assert len(alone) == 8
    expected = find_threshold(outcome.taken.own[0].numpy(), lot.good.image.tolist(), 0.05, alone=alone)
    assert outcome.thresholds[0] == expected
    assert outcome.self_test.planted == sum(one.plain for one in outcome.planted.defects) < 20
    assert outcome.self_test.seed == 4
    assert outcome.self_test.found == count_found(outcome.planted, lot, expected.value)
    before = find_threshold(inputs.own[0].numpy(), outcome.lot_base.tolist(), 0.05)
    assert outcome.self_test.before is not None
    assert before.value > 0
    assert outcome.maps["left_out"].shape == (8, 8, 8)
    assert outcome.maps["removed"].shape == (8, 8)


def test_a_correction_that_was_named_is_taken_with_its_settings(inputs, shown):
    outcome = run(inputs, shown[8], "sparc", settings={"rank": 2})
    assert outcome.choice.trials == ()
    assert outcome.choice.sentence.endswith("It was asked for by name.")
    assert outcome.taken.calibrated.correction.rank == 2
    assert outcome.taken.calibrated.correction.basis_[0].shape[-2] == 2


def test_the_stations_own_reference_needs_nothing_left_out(inputs, shown):
    outcome = run(inputs, shown[8], STATION_REFERENCE)
    # It has seen none of the lot's lights, so every part counts, alone or not.
    assert outcome.thresholds[0] == find_threshold(inputs.own[0].numpy(), outcome.lot_base.tolist(), 0.05)
    assert outcome.taken.lot.good.image.tolist() == outcome.lot_base.tolist()
    assert outcome.taken.own is inputs.own
    assert outcome.self_test.found == outcome.self_test.before


def test_two_parts_of_a_shifted_lot_are_recentred_unchecked(inputs, shown):
    outcome = run(inputs, shown[2])
    assert (outcome.choice.correction, outcome.choice.helps, outcome.self_test) == (UNCHECKED, None, None)
    assert outcome.choice.sentence == (
        "sparc-recentred is taken unchecked, because 2 images are too few to leave one out: show at least 3."
    )
    verdicts = {check.name: check.verdict for check in outcome.checks}
    assert verdicts["number"] == verdicts["odd one out"] == verdicts["self-test"] == verdicts["benefit"] == "look"
    assert "left_out" not in outcome.maps


@pytest.mark.parametrize("k", [2, 8])
def test_a_preview_says_what_to_expect_and_changes_nothing(inputs, shown, k):
    rows = inputs.detector.rows.clone()
    checks = preview(inputs, shown[k], 0.05)
    assert [check.name for check in checks][-1] == "expected benefit"
    assert "asked for" not in checks[-1].sentence
    assert inputs.detector.rows.equal(rows)
