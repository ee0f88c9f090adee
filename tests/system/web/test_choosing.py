"""Any choice of parts is judged again by the lot that is active now: by mouse, by keyboard, by filter, on every screen.

The tests of this file build on each other, in order.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.support.browsing import GRAVE, in_view, patient_context, photograph, sign

SIZES = {"laptop": (1366, 768), "desktop": (1920, 1080), "tablet": (820, 1180), "phone": (390, 844)}
LOT = "2026-46 B"
OWN = "the station's own reference"


@pytest.fixture(scope="module")
def station(served, parts):
    """Ten parts that the station's own reference has judged, and then another lot is accepted."""
    served.send("/inspection/images", [*parts.good[:8], *parts.bad[:2]])
    served.idle()
    draft = served.calibrated(LOT, parts.good[8:14])
    served.post(f"/drafts/{draft}/decision", {"decision": "accept", "operator": "M. Weber", "reason": "A trial."})
    return served


def judged(station, lot):
    return {row["name"] for row in station.get("/scores", params={"lot": lot})["scores"]}


def test_a_way_leads_to_what_another_reference_has_judged(page, station):
    page.goto("/judge")
    expect(page.locator("#empty")).to_be_visible()
    page.get_by_role("link", name=f"See what {OWN} has judged").click()
    page.wait_for_url("**/judge?lot=")
    expect(page.locator("#earlier-what")).to_contain_text(f"Judged by {OWN}, which is not active now.")
    expect(page.locator("#list input")).to_have_count(10)
    expect(page.locator("#again")).to_be_disabled()
    page.goto("/lots")
    page.locator("#days").get_by_role("link", name=OWN).click()
    page.wait_for_url("**/judge?lot=")
    assert len(judged(station, "")) == 10


def test_parts_are_ticked_by_keyboard_and_judged_again(page, station, album):
    page.goto("/judge?lot=")
    expect(page.locator("#list input")).to_have_count(10)
    names = page.locator("#list .name").all_inner_texts()
    page.keyboard.press("x")
    expect(page.locator("#again")).to_have_text(f"Judge 1 part again with lot {LOT}")
    for _ in range(2):
        page.keyboard.press("ArrowDown")
    page.wait_for_timeout(200)  # two letters at once come from a scanner
    page.keyboard.press("x")
    page.locator("#list input").nth(5).focus()
    page.keyboard.press("Space")
    expect(page.locator("#again")).to_have_text(f"Judge 3 parts again with lot {LOT}")
    page.keyboard.press("Space")
    expect(page.locator("#again")).to_have_text(f"Judge 2 parts again with lot {LOT}")
    page.locator("#search").fill(names[9])
    expect(page.locator("#list input")).to_have_count(1)
    page.locator("#list input").check()
    page.locator("#search").fill("")
    expect(page.locator("#list input:checked")).to_have_count(3)  # a search forgets no tick
    photograph(page, album, "judge-choosing", impacts=("minor", "moderate", *GRAVE))
    page.locator("#again").focus()
    page.wait_for_timeout(200)  # a scanner's Enter would press nothing
    page.keyboard.press("Enter")
    for name in (names[0], names[2], names[9]):
        expect(page.locator("#sign-note")).to_contain_text(name)
    expect(page.locator("#sign-note")).to_contain_text(f"The verdicts of {OWN} stay on record")
    photograph(page, album, "judge-choosing-sign")
    sign(page, "A. Roth", "Judge again")
    page.wait_for_url("**/judge")
    expect(page.locator("#list button")).to_have_count(3)
    expect(page.locator("#list .beside").first).to_contain_text("was fail")
    expect(page.locator("#others")).to_contain_text(f"{OWN} said fail")
    station.idle()
    assert judged(station, LOT) == {names[0], names[2], names[9]}
    assert len(judged(station, "")) == 10, "the old verdicts stay on record"
    assert (
        station.get("/audit")["entries"][0]["sentence"] == f"had 3 images judged again, which {OWN} had judged before"
    )


def test_all_that_a_filter_shows_is_judged_again_but_for_what_is_left_out(page, station, parts):
    page.goto("/judge")
    page.locator("#by").select_option(label=f"By {OWN}")
    page.wait_for_url("**/judge?lot=")
    expect(page.locator("#list input")).to_have_count(7)
    expect(page.locator("#list .beside", has_text="now ")).to_have_count(3)
    done = judged(station, LOT)
    goods = [name for name, _ in parts.good[:8] if name not in done]
    page.locator("#search").fill(parts.good[0][0].split("_")[0])
    expect(page.locator("#choose-all + span")).to_have_text(f"All {len(goods)}")
    page.locator("#choose-all").check()
    expect(page.locator("#again")).to_have_text(f"Judge {len(goods)} parts again with lot {LOT}")
    boxes = page.locator("#list input")
    left = boxes.first.get_attribute("aria-label").removeprefix("Judge ").removesuffix(" again")
    boxes.first.uncheck()
    expect(page.locator("#choose-all")).to_have_js_property("indeterminate", True)
    page.locator("#again").click()
    sign(page, "A. Roth", "Judge again")
    page.wait_for_url("**/judge")
    expect(page.locator("#list button")).to_have_count(3 + len(goods) - 1)
    station.idle()
    assert judged(station, LOT) == done | set(goods) - {left}


def test_shift_ticks_a_run_and_another_filter_takes_all_back(page, station):
    page.goto("/judge?lot=")
    boxes = page.locator("#list input")
    expect(boxes.first).to_be_visible()
    count = boxes.count()
    assert count > 1
    boxes.first.click()
    boxes.last.click(modifiers=["Shift"])
    expect(page.locator("#choose-all")).to_be_checked()
    expect(page.locator("#again")).to_have_text(f"Judge {count} parts again with lot {LOT}")
    page.locator("#choose-all").uncheck()
    page.locator("#choose-all").check()
    page.locator("#show").select_option("fail")  # all was all of another list
    expect(page.locator("#again")).to_be_disabled()
    assert station.get("/state")["queued"] == 0


@pytest.mark.parametrize("size", SIZES)
def test_choosing_is_in_view_on_every_screen(chromium, station, album, size):
    width, height = SIZES[size]
    context = patient_context(chromium, base_url=station.address, viewport={"width": width, "height": height})
    page = context.new_page()
    page.goto("/judge?lot=")
    page.locator("#list input").first.check()
    expect(page.locator("#again")).to_be_enabled()
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert in_view(page, "#good")
    if width > 820:
        assert in_view(page, "#again")
        assert in_view(page, "#viewer")
    else:
        assert page.locator("#image").bounding_box()["y"] < page.locator("#earlier").bounding_box()["y"], (
            "the part first"
        )
    photograph(page, album, f"judge-choosing-{size}", impacts=("minor", "moderate", *GRAVE))
    context.close()


def test_nothing_is_offered_twice(page, station):
    page.goto("/judge?lot=")
    page.locator("#choose-all").check()
    page.locator("#again").click()
    sign(page, "A. Roth", "Judge again")
    page.wait_for_url("**/judge")
    expect(page.locator("#list button")).to_have_count(10)
    page.goto("/judge?lot=")
    expect(page.locator("#earlier-what")).to_contain_text(f"None is left to judge again: lot {LOT} has judged them too")
    expect(page.locator("#choose")).to_be_hidden()
    expect(page.locator("#list input")).to_have_count(0)
    assert judged(station, LOT) == judged(station, "")
