"""The page of judged images: its histogram hides no part that fails."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from sparcal.station.judged_page import BARS, HEIGHT, _histogram, close_calls

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
