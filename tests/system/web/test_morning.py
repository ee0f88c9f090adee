"""A morning at the station: a bad part among the good ones is refused, the lot is accepted, old verdicts are made anew.

The tests of this file build on each other, in order.
"""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.support.browsing import as_files, in_view, patient_context, photograph, sign

SIZES = {"laptop": (1366, 768), "desktop": (1920, 1080), "tablet": (820, 1180), "phone": (390, 844)}
# A scanner types within a few milliseconds; so many trips to the browser would be slower than a hand.
SCAN = """keys => {
  for (const key of keys) {
    const at = document.activeElement;
    const pressed = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true });
    if (at.dispatchEvent(pressed) && key === "Enter") at.click();
  }
}"""
LONG = "2026-47 " + "X" * 190


def test_the_stations_own_reference_judges_first(page, parts, served):
    page.goto("/judge")
    page.locator("#drop input[type=file]").set_input_files(as_files(parts.good[8:12]))
    expect(page.locator("#list button")).to_have_count(4)
    expect(page.locator("#verdict")).to_have_text("Fail")
    assert served.get("/state")["active"]["name"] == ""


def test_a_stop_stands_on_top_and_needs_a_reason(page, parts, served, album):
    page.goto("/new")
    page.get_by_label("Lot name").fill(LONG)
    page.get_by_role("button", name="Begin").click()
    expect(page.locator("#mark")).to_be_visible()
    page.locator("#drop input[type=file]").set_input_files(as_files([*parts.good[:6], parts.smeared]))
    expect(page.locator(".thumb img")).to_have_count(7)
    names = page.locator(".thumb .name").all_inner_texts()
    assert names == [name for name, _ in [*parts.good[:6], parts.smeared]], "uploads keep their order"
    for number in range(1, 8):
        page.locator("body").press(str(number))
        page.wait_for_timeout(200)
    expect(page.locator("#checks li").first).to_have_class("stop")
    expect(page.locator("#checks li").first).to_contain_text(f"Probably defective: {parts.smeared[0]}.")
    page.set_viewport_size({"width": 1366, "height": 768})
    assert in_view(page, "#calibrate"), "also while the checks are long"
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.locator("#stopped")).to_contain_text(parts.smeared[0])
    assert in_view(page, "#stopped"), "also where the checks stand below all pictures"
    photograph(page, album, "draft-stop-phone")
    page.set_viewport_size({"width": 1366, "height": 768})
    page.locator("#calibrate").click()
    sign(page, "M. Weber", "Calibrate")
    expect(page.locator("#result")).to_be_visible()
    expect(page.locator("#helps")).to_have_text("stop")
    expect(page.locator("#stops")).to_contain_text("Probably defective")
    expect(page.locator("#result")).not_to_contain_text(
        re.compile("calibration helps|This lot judges its own parts better")
    )
    assert in_view(page, "#accept")
    photograph(page, album, "new-lot-stop")
    page.locator("#accept").click()
    page.locator("#sign").get_by_label("Your name").fill("M. Weber")
    page.locator("#sign").get_by_role("button", name="Accept").click()
    expect(page.locator("#sign")).to_be_visible()  # the reason is missing
    page.locator("#sign").get_by_label("Why, although a check says stop?").fill("A trial.")
    photograph(page, album, "sign-reason")
    page.locator("#sign").get_by_role("button", name="Back").click()
    page.locator("#discard").click()
    sign(page, "M. Weber", "Discard")
    expect(page.locator("#decided")).to_contain_text("Discarded")
    expect(page.locator("#again")).to_be_hidden()
    expect(page.locator("#choose-link")).to_be_hidden()
    photograph(page, album, "new-lot-discarded")
    assert served.get("/state")["active"]["name"] == ""


def test_after_a_lot_is_discarded_a_new_one_begins_with_its_images(page, parts, served):
    page.goto(f"/new?draft={served.get('/drafts/1')['id']}")
    page.locator("#anew").click()
    expect(page.locator("#name-lot input")).to_have_value(f"{LONG} 2")
    page.locator("#name-lot").get_by_role("button", name="Begin").click()
    expect(page.locator(".thumb img")).to_have_count(7)
    assert page.locator(".thumb .name").all_inner_texts() == [name for name, _ in [*parts.good[:6], parts.smeared]]
    expect(page.locator("#tally")).to_have_text("0")
    page.locator("#drop-draft").click()
    sign(page, "M. Weber", "Discard")
    expect(page.locator("#begin")).to_be_visible()
    assert served.get("/drafts")["drafts"] == []


def test_after_a_lot_is_accepted_old_parts_are_judged_again(page, parts, served, album):
    draft = served.calibrated("2026-46 B", parts.good[:8])
    page.goto(f"/new?draft={draft}")
    expect(page.locator("#helps")).to_have_text("calibration helps")
    page.locator("#accept").click()
    sign(page, "M. Weber", "Accept")
    expect(page.locator("#again")).to_have_text("Judge again: 4 parts that the station's own reference had judged")
    photograph(page, album, "new-lot-accepted")
    page.locator("#again").click()
    sign(page, "M. Weber", "Judge again")
    page.wait_for_url("**/judge")
    expect(page.locator("#list button")).to_have_count(4)
    expect(page.locator("#verdict")).to_have_text("Pass")
    expect(page.locator("#others")).to_contain_text("the station's own reference said fail")
    assert len(served.get("/scores", params={"lot": ""})["scores"]) == 4, "the old verdicts stay on record"
    expect(page.locator("#chart circle")).to_have_count(8)
    expect(page.locator("#chart .change")).to_have_count(1)


def test_a_scanner_decides_nothing_and_keys_can_be_switched_off(page, served):
    page.goto("/judge")
    page.evaluate("sessionStorage.setItem('sparcal-operator', 'A. Roth')")
    expect(page.locator("#list button").first).to_be_visible()
    page.locator("#good").focus()
    page.evaluate(SCAN, [*"DG-4711-GD", "Enter"])
    page.wait_for_timeout(400)
    assert served.get("/scores")["counts"]["confirmed"] + served.get("/scores")["counts"]["overruled"] == 0
    page.locator("#search").fill("d")
    page.keyboard.press("d")
    page.wait_for_timeout(400)
    page.locator("#search").fill("")
    assert served.get("/scores")["counts"]["confirmed"] + served.get("/scores")["counts"]["overruled"] == 0
    page.locator("#help-button").click()
    page.locator("#single-keys").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.wait_for_timeout(400)
    assert served.get("/scores")["counts"]["confirmed"] == 0
    page.locator("#help-button").click()
    page.locator("#single-keys").check()
    page.keyboard.press("Escape")
    page.wait_for_timeout(200)
    page.keyboard.press("g")
    expect(page.locator("#counts")).to_contain_text("looked at1")


def test_arrows_move_the_slider_that_has_the_focus(page, served):
    page.goto("/judge")
    expect(page.locator("#list button").first).to_be_visible()
    shown = page.locator("#name").inner_text()
    page.locator("#opacity").focus()
    before = float(page.locator("#opacity").input_value())
    page.keyboard.press("ArrowDown")
    assert float(page.locator("#opacity").input_value()) < before
    assert page.locator("#name").inner_text() == shown, "and not the list"
    assert served.get("/state")["trouble"] is None


def test_the_list_is_searched_and_narrowed(page, parts):
    page.goto("/judge")
    rows = page.locator("#list button")
    expect(rows).to_have_count(4)
    page.locator("#search").fill(parts.good[9][0])
    expect(rows).to_have_count(1)
    page.locator("#search").fill("no such part")
    expect(page.locator("#nothing")).to_be_visible()
    below, above = (page.locator(each).bounding_box()["y"] for each in ("#nothing", "#show"))
    assert below - above < 100, "where the list would begin"
    page.locator("#search").fill("")
    page.locator("#show").select_option("fail")
    expect(rows).to_have_count(0)
    page.locator("#show").select_option("open")
    expect(rows).to_have_count(3)


@pytest.mark.parametrize("share", [0, 0.5, 1])
def test_what_is_written_on_the_curve_stays_on_it(page, share):
    """Wherever nine in ten are found, from the smallest defects on or of the largest only."""

    def found_from(route):
        shown = route.fetch().json()
        tried = [(each["from"] * each["to"]) ** 0.5 for each in shown["self_test"]["by_size"] if each["planted"]]
        shown["self_test"]["a90"] = min(tried) * (max(tried) / min(tried)) ** share
        route.fulfill(json=shown)

    page.route("**/api/lots/show*", found_from)
    page.goto("/lots")
    text = page.locator("#detail-self-test svg.curve .limit-text")
    expect(text).to_have_text("9 in 10 found")
    begins, ends, room = text.evaluate(
        "text => { const b = text.getBBox(); return [b.x, b.x + b.width, text.ownerSVGElement.viewBox.baseVal.width]; }"
    )
    assert 0 <= begins < ends <= room, "in pixels"


def test_a_broken_promise_is_one_sentence_and_advice_on_demand(page, served, album):
    told = "26 of 40 parts were rejected, and at most 31.2% was promised. If they are good, calibrate again."
    state = {**served.get("/state"), "promise": told}
    page.route("**/api/state", lambda route: route.fulfill(json=state))
    page.goto("/lots")
    band = page.locator("#promise")
    expect(band.locator("summary")).to_have_text(
        "26 of 40 parts were rejected, and at most 31.2% was promised. What to do?"
    )
    expect(band.locator("p")).to_be_hidden()
    band.locator("summary").click()
    expect(band.locator("p")).to_have_text("If they are good, calibrate again.")
    expect(band.locator("p")).to_be_visible()
    photograph(page, album, "promise")
    page.unroute_all(behavior="ignoreErrors")  # the page goes on asking while it is closed
    assert served.get("/state")["promise"] is None


def test_the_report_is_complete_on_paper(page, parts, served, album):
    page.goto("/report?lot=2026-46%20B")
    expect(page.locator("h1")).to_have_text("Report on lot 2026-46 B")
    photograph(page, album, "report")
    page.emulate_media(media="print")
    text = page.locator("body").inner_text()
    for expected in (
        "M. Weber",
        "Threshold",
        "Checks",
        "Parts before and after",
        "4 parts: 4 passed, 0 failed",
        "accepted lot 2026-46 B",
        "Decisions",
        ", ".join(sorted(name for name, _ in parts.good[:8])),
    ):
        assert expected in text, expected
    for control in ("Print or save as PDF", "Queue", "Judge parts"):
        assert control not in text, control
    paper = page.pdf(format="A4")
    assert paper.startswith(b"%PDF")
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", paper)) <= 8
    assert served.get("/lots/show", params={"lot": "2026-46 B"})["state"] == "active"


def test_the_page_of_planted_defects_has_no_serious_finding(chromium, served, album):
    context = patient_context(chromium, base_url=served.address, bypass_csp=True)  # it forbids all scripts, axe too
    page = context.new_page()
    page.goto("/planted?lot=2026-46%20B")
    expect(page.locator("h1")).to_contain_text("planted defects found")
    photograph(page, album, "planted")
    context.close()


@pytest.mark.parametrize("size", SIZES)
def test_no_page_is_wider_than_the_window_and_the_part_is_in_view(page, served, size, album):
    width, height = SIZES[size]
    page.set_viewport_size({"width": width, "height": height})
    for path in ("/judge", "/new", "/lots", "/report?lot=2026-46%20B", f"/report?lot={LONG}", "/api/docs"):
        page.goto(path)
        page.wait_for_timeout(500)
        wider = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wider <= 0, f"{path} is {wider} px wider than a {size}"
    page.goto("/judge")
    expect(page.locator("#list button").first).to_be_visible()
    assert page.locator("#image").bounding_box()["y"] < 200, "little stands above the part"
    assert in_view(page, "#good")
    assert in_view(page, "#defective")
    photograph(page, album, f"judge-{size}")
    page.locator("#queue-button").click()
    expect(page.locator(".jobs li").first).to_be_visible()
    heights = [row.bounding_box()["height"] for row in page.locator(".jobs li").all()]
    assert min(heights) >= 40
    photograph(page, album, f"queue-{size}")
    assert served.get("/drafts")["drafts"] == []


def test_a_station_that_is_gone_is_unmistakable(page, served, album):
    page.goto("/judge")
    expect(page.locator("#list button").first).to_be_visible()
    page.route("**/api/state", lambda route: route.abort())
    expect(page.locator("#trouble")).to_contain_text("The station does not answer")
    expect(page.locator("#trouble")).to_contain_text("may be out of date")
    assert page.locator("body").evaluate("body => body.classList.contains('gone')")
    photograph(page, album, "gone")
    page.unroute("**/api/state")
    expect(page.locator("#trouble")).to_be_hidden()
    assert served.get("/state")["station"]
