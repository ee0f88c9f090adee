"""The whole walk in a browser: a new lot is calibrated and accepted, images are judged, lots compared and rolled back.

The tests of this file build on each other, in order, as one day at the station.
"""

from __future__ import annotations

import csv
import io
import re

import pytest
from playwright.sync_api import expect

from tests.support.browsing import as_files, photograph, sign

HAND_MS = 200  # no hand is faster; keys that come closer together are a scanner's


def the_expected_benefit_is_told(page, served):
    expected = page.locator('#checks [data-check="expected benefit"]')
    expect(expected).to_be_visible()
    draft = served.get(f"/drafts/{re.search(r'draft=([0-9]+)', page.url).group(1)}")
    said = next(check for check in draft["checks"]["checks"] if check["name"] == "expected benefit")
    assert (draft["state"], draft["result"]) == ("open", None), "nothing was calibrated yet"
    expect(expected.locator(".said")).to_have_text(said["plain"])
    expected.locator("summary").click()
    expect(expected.locator("details p")).to_have_text(said["sentence"])
    expect(expected.locator(".chip")).to_have_text(said["verdict"])


def test_a_new_lot_is_marked_checked_calibrated_and_accepted(page, parts, served, album):
    page.goto("/new")
    page.get_by_label("Lot name").fill("2026-46 B")
    page.get_by_role("button", name="Begin").click()
    expect(page.locator("#mark")).to_be_visible()
    page.locator("#drop input[type=file]").set_input_files(as_files([*parts.good[:8], parts.smeared, parts.bad[4]]))
    thumbs = page.locator(".thumb")
    expect(thumbs).to_have_count(10)
    expect(page.locator(".thumb img")).to_have_count(10)
    expect(page.locator("#calibrate")).to_be_disabled()
    names = [name for name, _ in parts.good[:8]]
    for name in names[:5]:
        page.get_by_role("button", name=re.compile(f"^{re.escape(name)}")).click()
    expect(page.locator("#tally")).to_have_text("5")
    expect(page.locator("#checks .chip.ok, #checks .chip.look").first).to_be_visible()
    the_expected_benefit_is_told(page, served)
    photograph(page, album, "new-lot-checks")

    page.get_by_role("button", name=re.compile("^" + re.escape(parts.smeared[0]))).click()
    odd = page.locator(".thumb.odd")
    expect(odd).to_have_count(1)
    assert parts.smeared[0] in odd.get_attribute("aria-label"), "the spoilt part is the odd one out"
    odd.click()
    for name in names[5:]:
        page.get_by_role("button", name=re.compile(f"^{re.escape(name)}")).click()
    expect(page.locator("#tally")).to_have_text("8")
    expect(page.locator(".thumb.odd")).to_have_count(0)
    page.locator("#calibrate").click()
    sign(page, "M. Weber", "Calibrate")
    expect(page.locator("#result")).to_be_visible()
    expect(page.locator("#helps")).to_have_text("calibration helps")
    expect(page.locator("#compare figure")).to_have_count(10)
    expect(page.locator("#compare .cap", has_text="verified good")).to_have_count(8)
    for picture in page.locator("#compare img").all():
        picture.scroll_into_view_if_needed()
        expect(picture).to_have_js_property("complete", True)
        assert picture.evaluate("image => image.naturalWidth") > 0
    computed = page.locator("#rate").inner_text()
    page.locator("#threshold").evaluate("s => { s.value = s.min; s.dispatchEvent(new Event('input')); }")
    expect(page.locator("#rate")).to_contain_text("Rejects 8 of 8 good parts of this lot")
    page.locator("#reset").click()
    expect(page.locator("#rate")).to_have_text(computed)
    photograph(page, album, "new-lot-result")
    expect(page.locator(".state strong")).to_have_text("No lot is active")
    page.keyboard.press("a")
    sign(page, "M. Weber", "Accept")
    expect(page.locator("#decided")).to_contain_text("Accepted")
    expect(page.locator(".state strong")).to_have_text("Lot 2026-46 B is active")
    expect(page.locator(".state span").first).to_contain_text("calibrated by M. Weber")
    expect(page.locator("#report-link")).to_be_visible()


def test_parts_are_judged_and_looked_at(page, parts, served, album):
    page.goto("/judge")
    page.locator("#drop input[type=file]").set_input_files(as_files(parts.good[8:] + parts.bad))
    rows = page.locator("#list button")
    count = len(parts.good[8:] + parts.bad)
    expect(rows).to_have_count(count)
    newest = served.get("/scores")["scores"]
    assert [row["id"] for row in newest] == sorted((row["id"] for row in newest), reverse=True)
    expect(rows.first).to_have_attribute("data-id", str(newest[0]["id"]))
    sent = [name for name, _ in parts.good[8:] + parts.bad]
    assert [row["name"] for row in newest] == sent[::-1], "uploads keep their order"
    page.locator("#order").select_option("worst")
    scored = served.get("/scores", params={"order": "worst"})["scores"]
    assert [row["score"] for row in scored] == sorted((row["score"] for row in scored), reverse=True)
    expect(rows.first).to_have_attribute("data-id", str(scored[0]["id"]))
    assert [re.split(r"[:,]", row.get_attribute("aria-label"))[0] for row in rows.all()] == [
        row["name"] for row in scored
    ]
    expect(page.locator("#verdict")).to_have_text("Fail")
    expect(page.locator("#viewer .picture")).to_have_js_property("naturalWidth", scored[0]["width"])
    page.wait_for_function("document.querySelector('#viewer .heat').naturalWidth > 0")
    photograph(page, album, "judge")

    page.locator("#opacity").evaluate("s => { s.value = 0.2; s.dispatchEvent(new Event('input')); }")
    assert page.locator("#viewer .heat").evaluate("image => image.style.opacity") == "0.2"
    page.keyboard.press("1")
    assert page.locator("#viewer").get_attribute("data-scale") == "1.000"
    before = page.locator("#viewer .sheet").evaluate("sheet => sheet.style.transform")
    box = page.locator("#viewer").bounding_box()
    page.mouse.move(box["x"] + 200, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + 260, box["y"] + 130)
    page.mouse.up()
    assert page.locator("#viewer .sheet").evaluate("sheet => sheet.style.transform") != before
    page.mouse.wheel(0, -400)
    page.wait_for_function("Number(document.querySelector('#viewer').dataset.scale) > 1.2")
    page.keyboard.press("0")


def test_a_part_is_found_good_or_defective(page, served):
    page.goto("/judge")
    page.locator("#order").select_option("worst")
    page.locator("h2").first.click()
    scored = served.get("/scores", params={"order": "worst"})["scores"]
    count = len(scored)
    rows = page.locator("#list button")
    expect(rows.first).to_have_attribute("data-id", str(scored[0]["id"]))
    expect(page.locator("#decide button")).to_have_text(["G Good", "D Defective"])
    page.keyboard.press("d")
    sign(page, "A. Roth", "Start judging")
    expect(page.locator("#counts")).to_contain_text("looked at1")
    against = "g" if scored[1]["verdict"] == "fail" else "d"
    turned = "pass" if against == "g" else "fail"
    page.keyboard.press(against)
    expect(page.locator("#counts")).to_contain_text("against the station1")
    kept = {row["name"]: row for row in served.get("/scores")["scores"]}
    assert (kept[scored[0]["name"]]["finding"], kept[scored[0]["name"]]["operator"]) == ("defective", "A. Roth")
    assert (kept[scored[1]["name"]]["overruled"], kept[scored[1]["name"]]["final"]) == (True, turned)
    rows.nth(1).click()
    expect(page.locator("#verdict")).to_have_text("Pass" if turned == "pass" else "Fail")
    page.locator("#good").click()  # Good is good, whatever was said before
    expect(page.locator("#counts")).to_contain_text("against the station" + ("1" if against == "g" else "0"))
    page.locator("#list").get_by_role("button", name=re.compile("^" + re.escape(scored[1]["name"]))).click()
    expect(page.locator("#verdict")).to_have_text("Pass")
    page.keyboard.press(against)  # and it counts for the part that was shown, not for the one that is clicked next
    rows.last.click()
    expect(page.locator("#counts")).to_contain_text("against the station1")
    page.locator("#good").click()
    expect(page.locator("#counts")).to_contain_text("looked at3")
    expect(page.locator("#chart circle")).to_have_count(count)
    page.locator(".actions summary").click()
    with page.expect_download() as download:
        page.locator("#csv").click()
    lines = list(csv.DictReader(io.StringIO(download.value.path().read_text(encoding="utf-8"))))
    assert len(lines) == count
    assert next(line for line in lines if line["image"] == scored[1]["name"])["final"] == turned
    with page.expect_download() as download:
        page.locator("#zip").click()
    assert download.value.suggested_filename == "overruled.zip"


def test_who_has_gone_to_another_part_before_a_decision_is_kept_stays_there(page, served):
    decided = next(row for row in served.get("/scores", params={"order": "worst"})["scores"] if row["overruled"])
    page.goto("/judge")
    page.locator("#order").select_option("worst")
    page.locator("#list").get_by_role("button", name=re.compile("^" + re.escape(decided["name"]))).click()
    held = []

    def hold(route):
        held.append(route)

    page.route("**/decision", hold)
    page.locator(f"#{decided['finding']}").click()  # once more, so that nothing changes
    sign(page, "A. Roth", "Start judging")
    while not held:
        page.wait_for_timeout(20)
    page.locator("#list button").last.click()
    name = page.locator("#name").inner_text()
    assert name != decided["name"]
    held[0].continue_()
    expect(page.locator(".toast")).to_have_text(f"{decided['name']}: {decided['finding']}.")
    expect(page.locator("#name")).to_have_text(name)


def test_confirmed_good_parts_begin_the_next_lot(page, served):
    page.goto("/judge")
    page.locator(".actions summary").click()
    page.locator("#next-lot").click()
    page.locator("#name-lot").get_by_label("Call it").fill("2026-47 A")
    page.locator("#name-lot").get_by_role("button", name="Begin").click()
    good = [row for row in served.get("/scores")["scores"] if row["finding"] == "good"]
    assert good
    expect(page.locator(".thumb")).to_have_count(len(good))
    expect(page.locator("#tally")).to_have_text("0")
    page.locator("#drop-draft").click()
    sign(page, "A. Roth", "Discard")
    expect(page.locator("#begin")).to_be_visible()
    assert served.get("/state")["active"]["name"] == "2026-46 B"


def test_lots_are_compared_and_rolled_back(page, parts, served, album):
    draft = served.calibrated("2026-47 B", parts.good[2:8], operator="B. Kern")
    served.post(f"/drafts/{draft}/decision", {"decision": "accept", "operator": "B. Kern"})
    page.goto("/lots")
    expect(page.locator("#lots tr")).to_have_count(2)
    expect(page.locator("#lots tr.active")).to_contain_text("2026-47 B")
    expect(page.locator("#detail-name")).to_have_text("2026-47 B")
    page.get_by_role("button", name="2026-46 B", exact=True).click()
    expect(page.locator("#detail-name")).to_have_text("2026-46 B")
    assert page.locator("#energy").evaluate("canvas => canvas.width") == 16, "one square per cell"
    page.locator("#first").select_option("2026-46 B")
    page.locator("#second").select_option("2026-47 B")
    expect(page.locator("#comparison")).to_contain_text("M. Weber")
    expect(page.locator("#comparison")).to_contain_text("B. Kern")
    photograph(page, album, "lots")
    page.get_by_role("button", name="Roll back to it").click()
    sign(page, "B. Kern", "Roll back")
    expect(page.locator(".state strong")).to_have_text("Lot 2026-46 B is active")
    expect(page.locator("#trail li").first).to_contain_text("went back to lot 2026-46 B")
    expect(page.locator("#trail")).to_contain_text("had judged it")
    expect(page.locator("#lots tr").first.locator('[data-label="State"]')).to_have_text("replaced")


def test_everything_is_reached_from_the_keyboard(page, parts, served):
    page.goto("/judge")
    expect(page.locator("#list button").first).to_be_visible()
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    expect(page.locator("#help tbody")).to_contain_text("the part is defective")
    page.keyboard.press("Escape")
    first = page.locator("#name").inner_text()
    page.keyboard.press("ArrowDown")
    assert page.locator("#name").inner_text() != first
    page.wait_for_timeout(HAND_MS)  # sooner after the question mark it would be a scanner
    page.keyboard.press("n")
    page.wait_for_url("**/new")
    expect(page.locator("#lot-name")).to_be_focused()
    page.keyboard.type("2026-48 C")
    page.keyboard.press("Enter")
    expect(page.locator("#mark")).to_be_visible()
    draft = int(re.search(r"draft=(\d+)", page.url).group(1))
    served.send(f"/drafts/{draft}/images", parts.good[:4])
    expect(page.locator(".thumb img")).to_have_count(4)
    page.locator("body").press("1")
    page.wait_for_timeout(HAND_MS)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    page.wait_for_timeout(HAND_MS)
    page.keyboard.press("3")
    expect(page.locator("#tally")).to_have_text("3")
    page.wait_for_timeout(HAND_MS)
    page.keyboard.press("c")
    expect(page.locator("#sign")).to_be_visible()
    page.keyboard.type("M. Weber")
    page.keyboard.press("Enter")
    expect(page.locator("#result")).to_be_visible()
    page.keyboard.press("k")
    expect(page.locator("#sign")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.locator("#decided")).to_contain_text("old reference was kept")
    page.keyboard.press("l")
    page.wait_for_url("**/lots")
    expect(page.locator("#trail li").first).to_contain_text("kept the old reference instead of lot 2026-48 C")


def test_judged_images_are_forgotten_and_their_scores_stay(page, served, album):
    before = served.get("/scores")
    page.goto("/judge")
    rows = page.locator("#list button")
    expect(rows).to_have_count(before["counts"]["scored"])
    page.locator(".actions summary").click()
    page.locator("#forget-button").click()
    dialog = page.locator("#forget")
    plain = before["counts"]["scored"] - before["counts"]["overruled"]
    expect(page.locator("#forget-what")).to_contain_text(
        f"{plain} images that lot 2026-46 B has judged will be removed"
    )
    photograph(page, album, "judge-forget")
    dialog.get_by_role("button", name="Back").click()
    assert not any(row["removed"] for row in served.get("/scores")["scores"])
    page.locator("#forget-button").click()
    dialog.get_by_label("1 image that somebody decided against the station").check()
    expect(page.locator("#forget-what")).to_contain_text(f"{plain + 1} images that")
    dialog.get_by_label("Your name").fill("B. Kern")
    dialog.get_by_role("button", name="Forget").click()
    expect(page.locator(".toast")).to_have_text(f"{plain + 1} images forgotten.")
    expect(page.locator("#list .blank", has_text="removed")).to_have_count(plain + 1)
    expect(page.locator("#removed")).to_be_visible()
    expect(page.locator("#viewer")).to_be_hidden()
    expect(page.locator("#good")).to_be_disabled()
    after = served.get("/scores")
    assert after["counts"] == before["counts"]
    assert [row["score"] for row in after["scores"]] == [row["score"] for row in before["scores"]]
    photograph(page, album, "judge-removed")
    page.goto("/lots")
    expect(page.locator("#trail li").first).to_contain_text(f"forgot {plain + 1} images that lot 2026-46 B had judged")


@pytest.mark.parametrize("path", ["/api/docs", "/new", "/nowhere"])
def test_other_pages_have_no_serious_finding(page, album, path):
    page.goto(path)
    page.wait_for_timeout(300)
    photograph(page, album, f"page{path.replace('/', '-')}")
