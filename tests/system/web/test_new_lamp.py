"""A whole morning, from the alarm to the report and back: another lamp hangs over the line, and the page leads through it.

One walk without a gap, in one browser, from the first part under the new lamp to going back to the old reference.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass

import pytest
from playwright.sync_api import expect

from sparcal.rendering.parts import LOT_LIGHTS, PRODUCTS, TRAINING_LIGHT, part_seeds, render_part
from tests.support.browsing import GRAVE, as_files, patient_context, photograph, sign
from tests.support.paper import pages_of, text_of
from tests.support.served import SIZE, png, serve

WINDOWS = {"desktop": (1440, 1000), "phone": (390, 844)}
LOT = "2026-46 new lamp"
LAMP = LOT_LIGHTS[0]
USUAL, UNDER, MARKED = 8, 16, 8


@dataclass(frozen=True)
class Morning:
    """Parts as files, in the order in which they come."""

    usual: list[tuple[str, bytes]]
    under: list[tuple[str, bytes]]
    bad: list[tuple[str, bytes]]


@pytest.fixture(scope="module")
def morning():
    def parts(group, count, stem, **more):
        seeds = part_seeds(11, group, count)
        return [(f"{stem}_{i:02d}.png", png(render_part(s, size=SIZE, **more).image)) for i, s in enumerate(seeds)]

    large = next(iter(PRODUCTS["plate"].large))
    return Morning(
        parts(0, USUAL, "usual", light=TRAINING_LIGHT),
        parts(1, UNDER, "lamp", light=LAMP),
        parts(2, 1, "torn", light=LAMP, defect=large, extent=2.0),
    )


@pytest.fixture
def station(parts_and_station, tmp_path):
    path = tmp_path / "line-3"
    shutil.copytree(parts_and_station[1], path)
    with serve(path) as running:
        yield running


@pytest.fixture
def window(request, chromium, station):
    """A browser of the size asked for, in which no script fails and nothing is fetched from elsewhere."""
    size, theme = request.param
    width, height = WINDOWS[size]
    context = patient_context(
        chromium, base_url=station.address, viewport={"width": width, "height": height}, color_scheme=theme
    )
    page = context.new_page()
    troubles = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("request", lambda one: one.url.startswith((station.address, "blob:")) or troubles.append(one.url))
    yield page, size, theme
    context.close()
    assert troubles == []


EVERY = [(size, theme) for size in WINDOWS for theme in ("light", "dark")]
QUICK = ("desktop", "light")


@pytest.mark.parametrize(
    "window",
    [pytest.param(each, id="-".join(each), marks=() if each == QUICK else pytest.mark.slow) for each in EVERY],
    indirect=True,
)
def test_a_morning_with_a_new_lamp(window, station, morning, album):
    page, size, theme = window
    themes = ("dark", "light") if theme == "light" else (theme,)

    def look(name):
        photograph(page, album, f"morning-{name}-{size}", impacts=("minor", "moderate", *GRAVE), themes=themes)

    the_alarm_is_raised(page, station, morning, look)
    a_draft_begins_from_it(page, station, look)
    a_bad_part_is_refused(page, morning, look)
    the_lot_is_calibrated_and_accepted(page, station, look)
    parts_are_judged_again_and_decided(page, station, morning, look)
    the_report_is_printed(page, station, morning, album / f"morning-report-{size}-{theme}.pdf")
    the_station_goes_back(page, station, look)


def the_alarm_is_raised(page, station, morning, look):
    page.goto("/judge")
    page.locator("#drop input[type=file]").set_input_files(as_files(morning.usual))
    expect(page.locator("#list button")).to_have_count(USUAL)
    expect(page.locator("#alarm")).to_be_hidden()
    page.locator("#drop input[type=file]").set_input_files(as_files(morning.under + morning.bad))
    expect(page.locator("#alarm-what")).to_contain_text("parts look different: the whole image is")
    station.idle()
    expect(page.locator("#alarm-what")).to_contain_text("warmer")
    expect(page.locator("#alarm-what")).to_contain_text("not a local defect. Calibrate a new lot?")
    expect(page.locator("#alarm-parts img")).to_have_count(6)
    expect(page.locator("#chart rect.shift")).to_be_attached()
    look("alarm")
    the_chart_follows_the_window(page)
    for path in ("/lots", "/new"):
        page.goto(path)
        expect(page.locator("#alarm-what")).to_contain_text("parts look different")
        look(f"alarm-on{path.replace('/', '-')}")


def names_of_lots_stay_on_the_chart(page):
    page.wait_for_function("document.querySelectorAll('#chart .change-text').length === 2")
    beyond = page.locator("#chart").evaluate(
        "chart => [...chart.querySelectorAll('.change-text')].map((name) => name.getBBox().x + name.getBBox().width"
        " - chart.viewBox.baseVal.width)"
    )
    assert max(beyond) <= 0, "in pixels"


def the_chart_follows_the_window(page):
    chart, size = page.locator("#chart"), page.viewport_size
    before = chart.get_attribute("viewBox")
    page.set_viewport_size({**size, "width": 700})
    expect(chart).not_to_have_attribute("viewBox", before)
    page.set_viewport_size(size)
    expect(chart).to_have_attribute("viewBox", before)


def a_draft_begins_from_it(page, station, look):
    page.goto("/judge")
    page.locator("#alarm-dismiss").click()
    look("dismiss")
    page.locator("#sign").get_by_role("button", name="Back").click()
    page.locator("#alarm-draft").click()
    page.locator("#name-lot input").fill(LOT)
    look("name")
    page.locator("#name-lot").get_by_role("button", name="Begin").click()
    page.wait_for_url("**/new?draft=*")
    expect(page.locator(".thumb img")).to_have_count(16)
    expect(page.locator("#tally")).to_have_text("0")
    assert station.get("/state")["alarm"]["draft"] is not None


def thumb(page, name):
    return page.get_by_role("button", name=re.compile("^" + re.escape(name)))


def a_bad_part_is_refused(page, morning, look):
    (bad, _), names = morning.bad[0], [name for name, _ in morning.under[-MARKED:]]
    for name in [*names[:-1], bad]:
        thumb(page, name).click()
    expect(page.locator("#tally")).to_have_text(str(MARKED))
    expect(page.locator("#checks li").first).to_have_class("stop")
    expect(page.locator("#checks li.stop", has_text=bad).first).to_be_visible()
    expect(page.locator(".thumb.odd")).to_have_attribute("aria-label", re.compile("^" + re.escape(bad)))
    look("refused")
    thumb(page, bad).click()
    thumb(page, names[-1]).click()
    expect(page.locator("#checks li.stop")).to_have_count(0)
    expect(page.locator("#checks li").first).to_be_visible()
    look("checks")


def the_lot_is_calibrated_and_accepted(page, station, look):
    page.locator("#calibrate").click()
    look("sign")
    sign(page, "M. Weber", "Calibrate")
    expect(page.locator("#result")).to_be_visible()
    test = station.get("/drafts/1")["result"]["self_test"]
    expect(page.locator("#self-test")).to_contain_text(f"{test['found']} of {test['planted']}")
    assert test["found"] > test["before"], "the self-test is why somebody accepts"
    expect(page.locator("#self-test svg.curve circle").first).to_be_attached()
    look("result")
    page.locator("#accept").click()
    sign(page, "M. Weber", "Accept")
    expect(page.locator("#decided")).to_contain_text("Accepted")
    expect(page.locator("#alarm")).to_be_hidden()
    expect(page.locator(".state strong")).to_have_text(f"Lot {LOT} is active")
    look("accepted")


def parts_are_judged_again_and_decided(page, station, morning, look):
    offered = UNDER + len(morning.bad)
    expect(page.locator("#again")).to_contain_text(
        re.compile(rf"Judge again: {offered} parts that the station's own reference had judged since \d\d:\d\d")
    )
    page.locator("#again").click()
    look("again")
    sign(page, "M. Weber", "Judge again")
    page.wait_for_url("**/judge")
    rows = page.locator("#list button")
    expect(rows).to_have_count(offered)
    station.idle()
    kept = {row["name"]: row for row in station.get("/scores", params={"lot": LOT})["scores"]}
    bad, good = morning.bad[0][0], morning.under[0][0]
    assert kept[bad]["verdict"] == "fail"
    assert sum(kept[name]["verdict"] == "pass" for name, _ in morning.under) >= UNDER - 2
    page.locator("#order").select_option("worst")
    row = page.locator("#list").get_by_role("button", name=re.compile("^" + re.escape(bad)))
    row.click()
    expect(page.locator("#name")).to_have_text(bad)
    expect(page.locator("#verdict")).to_have_text("Fail")
    expect(page.locator("#others")).to_contain_text("the station's own reference said")
    names_of_lots_stay_on_the_chart(page)
    look("judged")
    page.locator("#defective").click()  # who works in this tab has signed before
    expect(page.locator("#counts")).to_contain_text("looked at1")
    page.locator("#list").get_by_role("button", name=re.compile("^" + re.escape(good))).click()
    expect(page.locator("#name")).to_have_text(good)
    page.locator("#good").click()
    expect(page.locator("#counts")).to_contain_text("looked at2")
    found = {row["name"]: row["finding"] for row in station.get("/scores", params={"lot": LOT})["scores"]}
    assert (found[bad], found[good]) == ("defective", "good")
    page.locator("#queue-button").click()
    look("queue")
    page.keyboard.press("Escape")
    page.locator("#help-button").click()
    look("help")
    page.keyboard.press("Escape")


def the_report_is_printed(page, station, morning, path):
    page.goto("/report?lot=" + LOT.replace(" ", "%20"))
    expect(page.locator("#self-test svg.curve circle").first).to_be_attached()
    for picture in page.locator(".compare img").all():
        picture.scroll_into_view_if_needed()
        expect(picture).to_have_js_property("complete", True)
    paper = page.pdf(format="A4")
    path.write_bytes(paper)
    assert 1 <= pages_of(paper) <= 8
    text = text_of(paper)
    lot = station.get("/lots/show", params={"lot": LOT})
    counts, test = lot["counts"], lot["self_test"]
    for expected in (
        f"Report on lot {LOT}",
        "by M. Weber",
        "active: it judges now",
        f"Good parts shown {MARKED}:",
        *(name for name, _ in morning.under[-MARKED:]),
        f"{lot['threshold']:.4g}. {lot['promise']}",
        f"{test['found']} of {test['planted']}",
        f"{counts['scored']} parts: {counts['passed']} passed, {counts['failed']} failed",
        "people looked at 2 and decided",
        *(check["plain"] for check in lot["checks"]),
        "Parts before and after",
        f"M. Weber accepted lot {LOT}",
    ):
        assert " ".join(expected.split()) in text, f"{expected!r} is not in {text!r}"
    for control in ("Print or save as PDF", "Queue:", "All lots"):
        assert control not in text, control


def the_station_goes_back(page, station, look):
    before = station.get("/scores", params={"lot": LOT})["counts"]
    page.goto("/lots")
    expect(page.locator("#lots tr.active")).to_contain_text(LOT)
    look("lots")
    page.locator("#own").click()
    look("go-back")
    sign(page, "B. Kern", "Roll back")
    expect(page.locator(".state strong")).to_have_text("No lot is active")
    expect(page.locator("#trail li").first).to_contain_text("B. Kern")
    expect(page.locator("#trail li").first).to_contain_text("own reference")
    assert station.get("/scores", params={"lot": LOT})["counts"] == before, "what was judged stays judged"
    page.goto("/report?lot=" + LOT.replace(" ", "%20"))
    expect(page.locator("dl.facts")).to_contain_text("replaced")
    look("report")
