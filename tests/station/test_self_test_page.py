"""The page of planted defects: every one of them, missed ones first, nothing from outside, the same bytes each time."""

from __future__ import annotations

import re

from sparcal.station.self_test_page import write_self_test_page
from tests.support.tested import made_up_test


def test_every_defect_is_shown_and_missed_ones_come_first(tmp_path):
    tested, crops = made_up_test(before=3)
    page = write_self_test_page(tmp_path / "self-test.html", "Lot <L&1>", tested, crops).read_text()
    verdicts = re.findall(r"<figure class='(\w+)'>", page)
    missed = sum(not one.found for one in tested.defects)
    assert 0 < missed < len(tested.defects) == len(verdicts)
    assert verdicts == ["missed"] * missed + ["found"] * (len(verdicts) - missed)
    assert page.count("data:image/jpeg;base64,") == len(verdicts)
    assert "Lot &lt;L&amp;1&gt;" in page
    assert f"{tested.found} of {tested.planted} planted defects found" in page
    assert "by the station's own reference" in page
    assert "http" not in page
    assert not re.search(r"\$\w", page), "a place of the template is empty"


def test_the_plain_ones_that_were_missed_lead_by_size(tmp_path):
    tested, crops = made_up_test()
    page = write_self_test_page(tmp_path / "self-test.html", "L", tested, crops).read_text()
    first = page.index("Missed, though plain to see")
    assert first < page.index("Missed, faint or tiny") < page.index("<h2>Found <small>")
    shown = [
        int(size) for size in re.findall(r"<figcaption>.*?</b>(\d+) px", page[first : page.index("Missed, faint")])
    ]
    plain = [round(one.pixels) for one in tested.defects if one.plain and not one.found]
    assert shown == sorted(plain, reverse=True)


def test_the_same_test_gives_the_same_bytes(tmp_path):
    tested, crops = made_up_test(n=7)
    first, second = (write_self_test_page(tmp_path / name, "L", tested, crops).read_bytes() for name in ("a", "b"))
    assert first == second
    assert len(first) < 1_000_000


def test_nothing_is_said_about_what_was_not_tested(tmp_path):
    tested, crops = made_up_test(n=1, threshold=0.0)
    page = write_self_test_page(tmp_path / "self-test.html", "L", tested, crops).read_text()
    for absent in ("by the station's own reference", "faint ones found", "nine in ten found from", "Missed"):
        assert absent not in page
