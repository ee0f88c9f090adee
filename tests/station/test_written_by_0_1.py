"""A station that version 0.1 wrote opens, scores and calibrates as it did then."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from sparcal.errors import DataError
from sparcal.station.station import Station
from tests.support.tiny_station import TinyEncoder, demo, pictures

WRITTEN = Path(__file__).parent / "written_by_0_1"


@pytest.fixture
def station(tmp_path):
    shutil.copytree(WRITTEN / "patchcore", tmp_path / "patchcore")
    return Station.open(tmp_path / "patchcore", encoder=TinyEncoder())


@pytest.mark.parametrize(("lot", "kept"), [("L42", "scores-L42.json"), (None, "scores-own.json")])
def test_scores_are_those_of_then(station, lot, kept):
    expected = json.loads((WRITTEN / kept).read_text())
    judged = station.lot(lot).score(sorted((WRITTEN / "parts").iterdir()))
    assert [one.score for one in judged] == pytest.approx(expected, rel=1e-5)


def test_its_lots_and_history_are_read(station):
    assert [lot.name for lot in station.lots()] == ["L42", "L43"]
    assert [event["event"] for event in station.history()] == ["fit", "calibrate", "calibrate"]
    assert station.lot("L42").record.correction == "sparc"


def test_it_takes_new_lots(station):
    normals = pictures(demo("lights", seed=1, train=2, good=12, bad=4).lot_good[6:12])
    assert station.calibrate(normals, "L44", correction="sparc").record.name == "L44"


def test_auto_calibrates_it_and_tests_the_lot(station):
    lot = station.calibrate(pictures(demo("lights", seed=1, train=2, good=12, bad=4).lot_good[6:12]), "L45")
    alone = next(check for check in lot.record.checks if check.name == "alone").images
    assert (alone, lot.record.self_test.planted) == (("image-4",), 55), "of 64, those on image-4 do not count"
    assert len(lot.record.choice.trials) >= 5
    assert station.self_test("L45", n=8).planted == 7


def test_it_kept_no_images_to_test_itself_or_its_lots_on(station):
    assert station.record.self_test is None
    station.activate(None)
    with pytest.raises(DataError) as caught:
        station.self_test()
    assert str(caught.value) == (
        f"The station {station.path} has kept no images to test it on, because version 0.1 fitted it: fit it again."
    )
    with pytest.raises(DataError) as caught:
        station.self_test("L42")
    assert str(caught.value) == ("The lot 'L42' has kept no images of its parts to test it on: calibrate it again.")


def test_its_choices_are_read_and_other_figures_passed_over(station):
    choice = station.lot("L42").record.choice
    assert (choice.correction, choice.settings, choice.trials) == ("sparc", {}, ())
    assert choice.sentence
