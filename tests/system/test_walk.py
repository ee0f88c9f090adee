"""A quality engineer's day on rendered parts: fit once, then a shifted lot, an unshifted one, and one with bad parts in it."""

from __future__ import annotations

import re

import numpy as np
import pytest

from sparcal.rendering.parts import make_demo
from sparcal.station.station import Station

TRAIN = 32


def images(parts):
    return [part.image for part in parts]


@pytest.fixture(scope="module")
def station(tmp_path_factory):
    path = tmp_path_factory.mktemp("walk") / "station"
    return Station.fit(images(make_demo(0, train=TRAIN, good=0, bad=0).train), path=path, encoder="bundled")


def checks(lot):
    return {check.name: check for check in lot.record.checks}


def rejected(lot, parts):
    return np.mean([one.verdict == "fail" for one in lot.score(images(parts))])


def test_a_shifted_lot_is_helped_and_told_so(station):
    demo = make_demo(1, train=0, good=24, bad=12, shift="moved")
    before = rejected(station.own(), demo.lot_good[8:])
    lot = station.calibrate(images(demo.lot_good[:8]), "moved camera", false_reject=0.05)
    assert before > 0.5  # the camera has moved, and everything is rejected
    assert lot.record.correction == "sparc-recentred"
    assert lot.record.choice.helps
    assert lot.record.choice.sentence.startswith("At its own threshold the station would reject 8 of 8 good parts")
    assert "Of 64 planted defects the station's own reference would find " in lot.record.choice.sentence
    assert lot.record.choice.sentence.endswith(": calibrated.")
    assert lot.record.self_test.found >= 0.9 * lot.record.self_test.planted
    assert checks(lot)["shift"].sentence.startswith("The lot looks different from the training parts")
    assert "1 cells right" in checks(lot)["alignment"].sentence
    assert station.active() == "moved camera"
    assert rejected(lot, demo.lot_good[8:]) <= 0.15
    assert rejected(lot, demo.lot_bad) >= 0.8


def test_other_lights_are_helped_as_well(station):
    demo = make_demo(2, train=0, good=18, bad=0, shift="lights")
    lot = station.calibrate(images(demo.lot_good[:8]), "five lights")
    assert lot.record.choice.helps
    assert checks(lot)["shift"].number > 2
    assert rejected(lot, demo.lot_good[8:]) <= 0.2
    assert checks(lot)["threshold"].verdict != "ok"  # eight parts under five lights do not support 1 %


def test_an_unshifted_lot_is_told_that_no_more_would_be_found(station):
    demo = make_demo(3, train=0, good=24, bad=12, shift="none")
    lot = station.calibrate(images(demo.lot_good[:8]), "as trained", false_reject=0.05)
    assert not lot.record.choice.helps
    said = lot.record.choice.sentence
    kept, same = "the station keeps its reference", ("no more are found", "no clear difference")
    assert kept in said if lot.record.correction == "identity" else any(words in said for words in same)
    assert checks(lot)["shift"].sentence.startswith("The lot looks like the training parts")
    assert checks(lot)["benefit"].verdict == "ok"
    assert checks(lot)["self-test"].verdict == "ok"
    assert checks(lot)["odd one out"].verdict == "ok"
    assert rejected(lot, demo.lot_good[8:]) <= 0.2
    assert rejected(lot, demo.lot_bad) >= 0.8


def test_bad_parts_among_the_good_are_named_and_the_lot_does_not_judge(station):
    demo = make_demo(4, train=0, good=6, bad=6, shift="none")
    active = station.active()
    planted = [part for part in demo.lot_bad if part.defect in ("missing_text", "missing_bore")]
    lot = station.calibrate(images([*demo.lot_good, *planted[:2]]), "dirty")
    check = checks(lot)["odd one out"]
    assert check.verdict == "stop"
    assert set(check.images) == {"image-6", "image-7"}
    assert "look defective" in check.sentence
    assert station.active() == active != "dirty"


@pytest.mark.parametrize(
    ("kind", "said"),
    [("moved", "would find"), ("none", r"reference (finds|would find) 2[2-4]\b")],  # nearly all of 24
)
def test_what_to_expect_is_said_before_anything_is_calibrated(station, kind, said):
    lots = len(station.lots())
    found = station.check(images(make_demo(5, train=0, good=8, bad=0, shift=kind).lot_good))
    assert [check.name for check in found][-1] == "expected benefit"
    assert found[-1].verdict == "ok"
    assert found[-1].sentence.startswith("Of 24 planted defects the station's own reference ")
    assert re.search(said, found[-1].sentence)
    assert len(station.lots()) == lots


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["none", "moved"])
def test_nine_of_ten_planted_parts_are_named_and_hardly_a_good_one(station, kind):
    planted = found = accused = 0
    for seed in range(10):
        rng = np.random.default_rng([seed, len(kind)])
        bad = 1 + seed % 3
        demo = make_demo(100 + seed, train=0, good=8 - bad, bad=12, shift=kind)
        spoilt = [demo.lot_bad[i] for i in rng.permutation(12)[:bad]]
        result = station.check(images([*demo.lot_good, *spoilt]))
        named = {name for check in result if check.name == "odd one out" for name in check.images}
        guilty = {f"image-{8 - bad + i}" for i in range(bad)}
        planted, found, accused = planted + bad, found + len(named & guilty), accused + len(named - guilty)
    assert found >= 0.9 * planted
    assert accused <= 1
