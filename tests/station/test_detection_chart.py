"""The chart: a dot for every defect where its size says, hits above misses, and a curve only where there is one."""

from __future__ import annotations

import re

import pytest

from sparcal.station.detection_chart import detection_chart
from tests.support.tested import made_up_test


def circles(svg):
    return re.findall(r"<circle class='(\w+)( faint)?' cx='([\d.]+)' cy='([\d.]+)'", svg)


def test_every_defect_has_its_dot():
    tested, _ = made_up_test()
    dots = circles(detection_chart(tested))
    assert len(dots) == len(tested.defects) == 42
    assert sum(kind == "found" for kind, *_ in dots) == sum(one.found for one in tested.defects)
    assert sum(faint != "" for _, faint, *_ in dots) == 14
    assert max(float(y) for kind, _, _, y in dots if kind == "found") < min(
        float(y) for kind, _, _, y in dots if kind == "missed"
    )
    assert [float(x) for _, _, x, _ in dots] == sorted(float(x) for _, _, x, _ in dots), "drawn from small to large"


def test_nine_in_ten_is_marked_where_the_curve_reaches_it():
    tested, _ = made_up_test()
    svg = detection_chart(tested)
    assert "class='curve'" in svg
    assert ("class='reach'" in svg) == (tested.a90 is not None)


@pytest.mark.parametrize("threshold", [0.0, 1e9])
def test_no_curve_is_drawn_where_all_or_none_are_found(threshold):
    tested, _ = made_up_test(threshold=threshold)
    svg = detection_chart(tested)
    assert "class='curve'" not in svg
    assert svg.count("class='step'") == len(tested.by_size)
