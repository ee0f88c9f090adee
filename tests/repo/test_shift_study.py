"""The study of the shift alarm: encoded once, drawn from other parts than the monitor knows, told as what happened."""

from __future__ import annotations

import numpy as np
import pytest

from speed.studies import shift_sights
from speed.studies.shift_alarm import KEPT, Line, Outcome, cell, kept_outcomes, outcomes, table
from speed.studies.shift_sights import LAMPS, seen
from tests.support.tiny_station import TinyEncoder

SMALL = {"GOOD": 60, "RENDERED": 30, "EACH": 4, "DEFECTS": 3, "SIZE": 64}


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SMALL.items():
            patch.setattr(shift_sights, name, value)
        work = tmp_path_factory.mktemp("work")
        first = seen("plate", None, 1, TinyEncoder(), work)
        again = seen("plate", None, 1, None, work)  # no encoder: what was kept is enough
    for name, group in first.groups.items():
        for one, other in zip(group, again.groups[name], strict=True):
            np.testing.assert_array_equal(one.sketch, other.sketch)
            np.testing.assert_array_equal(one.appearance.fields, other.appearance.fields)
    return again


def test_every_change_and_every_kind_of_spoilt_part_is_there(shown):
    assert {f"lamp {number + 1}" for number in range(LAMPS)} < set(shown.groups)
    assert {"good", "5 % darker", "moved by 2 pixels 4", "out of focus", "defects", "large", "half"} < set(shown.groups)
    assert (len(shown.groups["good"]), len(shown.groups["lamp 1"]), len(shown.groups["large"])) == (60, 4, 3)
    assert shown.native == (64, 64)


def test_a_stream_has_no_part_that_the_monitor_knows(shown):
    line = Line(shown, KEPT, np.random.default_rng(0))
    assert len(line._read["good"]) == 2 * (30 - KEPT), "every part was photographed twice"


def test_a_run_has_every_row_and_a_plain_change_is_found(shown, tmp_path):
    found = kept_outcomes(tmp_path / "plate.json", lambda: outcomes(shown, 1, seed=0))
    assert kept_outcomes(tmp_path / "plate.json", dict) == found, "kept for the next run"
    assert found["15 % darker, after 200 parts"][0].delay < 20
    assert not found["15 % darker, after 200 parts"][0].early
    assert len(found) == 2 + 3 * 2 + 2 * 6
    told = table({"plate": found, "cap": {"1,000 good parts": [Outcome(None)]}}).splitlines()
    assert (told[0], len(told)) == ("| stream | plate | cap |", 2 + len(found))
    assert told[2] == "| 1,000 good parts | 0 of 1 | 0 of 1 |"


def test_alarms_before_a_change_are_not_counted_as_found():
    told = cell([Outcome(4), Outcome(9), Outcome(None), Outcome(-50, early=True)])
    assert told == "2 of 4, 1 before the change: 6.5 / 9"
