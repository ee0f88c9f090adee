"""The page of judged images: its histogram hides no part that fails."""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from sparcal.calibration.check import Check
from sparcal.station.judge_facts import JudgeFacts
from sparcal.station.judged_page import BARS, HEIGHT, _checks, _histogram, close_calls, write_page

SCORES = st.floats(0, 1e4, allow_subnormal=False)


@given(st.lists(SCORES, min_size=1, max_size=40), SCORES)
def test_red_bars_are_the_parts_that_fail(scores, limit):
    drawn = _histogram(scores, limit)
    heights = {kind: _heights(drawn, kind) for kind in ("fail", "pass")}
    assert bool(heights["fail"]) == any(score > limit for score in scores)
    assert bool(heights["pass"]) == any(score <= limit for score in scores)
    assert sum(map(len, heights.values())) <= BARS + 2


def test_a_bar_is_cut_at_the_threshold():
    drawn = _histogram([254.8, 255.0, 267.9, 268.3, 2560.0], 261.3)
    assert _heights(drawn, "pass") == [HEIGHT]
    assert _heights(drawn, "fail") == [HEIGHT, HEIGHT / 2]


def test_only_what_fails_by_little_is_close():
    rows = [
        {"verdict": verdict, "score": score, "threshold": 100.0}
        for verdict, score in (("fail", 104.0), ("fail", 106.0), ("pass", 99.0), ("error", None))
    ]
    assert close_calls(rows).startswith("1 part fails by less than 5% of the threshold: look at it")
    assert close_calls(rows[1:]) == ""


def _heights(drawn, kind):
    return [float(height) for height in re.findall(rf"<rect class='{kind}'[^>]* height='([\d.]+)'", drawn)]


def test_a_stop_lies_open_and_checks_have_the_titles_of_the_tables():
    facts = JudgeFacts("L1", 1.0, "Lot L1", "", "", checks=[Check("alignment", 0.9, "ok", "Fine.")])
    folded = _checks(facts)
    assert folded.startswith("<details><summary>Checks of this calibration: 1 ok</summary>")
    assert "<span>Position</span> Fine." in folded
    stopped = replace(facts, checks=[*facts.checks, Check("duplicates", 2.0, "stop", "Twice.")])
    assert _checks(stopped).startswith("<details open><summary>Checks of this calibration: 1 stop, 1 ok</summary>")


def test_a_page_that_is_filed_says_where_when_and_by_whom_its_lot_was_made(station, tmp_path):
    lot = station.lot("L1")
    write_page(tmp_path / "index.html", lot.on_page(), [])
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    made = lot.record.created
    assert f"Station {station.path.name}; made {made[:10]} {made[11:16]} UTC by Ada." in page
