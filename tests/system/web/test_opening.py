"""A page that opens asks once for what it shows and misses nothing meanwhile; uploads keep their order and their total.

The tests of this file build on each other, in order.
"""

from __future__ import annotations

from collections import Counter
from urllib.parse import urlsplit

from playwright.sync_api import expect

from tests.support.browsing import as_files

JUDGED = 4


def test_a_second_drop_follows_the_first(page, parts, served):
    held = []

    def hold_the_first(route):
        held.append(route)
        if len(held) > 1:
            route.continue_()

    page.goto("/judge")
    page.route("**/api/inspection/images*", hold_the_first)
    drop = page.locator("#drop input[type=file]")
    drop.set_input_files(as_files(parts.good[2:4]))
    expect(page.locator("#sending")).to_have_text("Sending 1 of 2")
    drop.set_input_files(as_files(parts.good[:2]))
    page.wait_for_timeout(300)
    assert len(held) == 1, "one goes after the other"
    held[0].continue_()
    expect(page.locator("#list button")).to_have_count(JUDGED)
    served.idle()
    newest = [row["name"] for row in served.get("/scores")["scores"]]
    assert newest[::-1] == [name for name, _ in [*parts.good[2:4], *parts.good[:2]]]


def test_judge_asks_once_for_its_list_and_its_chart(page, served):
    asked = Counter()
    page.on("request", lambda request: asked.update([urlsplit(request.url).path]))
    page.goto("/judge")
    expect(page.locator("#list button")).to_have_count(JUDGED)
    expect(page.locator("#chart circle")).to_have_count(JUDGED)
    expect(page.locator("#monitored")).not_to_be_empty()  # so the state has come too
    page.wait_for_timeout(300)
    assert (asked["/api/scores"], asked["/api/trend"]) == (1, 1)
    assert served.get("/state")["running"] == 0


def test_what_changes_while_a_page_opens_is_shown(page, served):
    decided, states = [], []
    first = served.get("/scores")["scores"][0]["id"]

    def decide_after_the_list_was_read(route):
        answer = route.fetch()
        if not decided:
            decided.append(served.post(f"/scores/{first}/decision", {"finding": "good", "operator": "A. Roth"}))
            for state in states:
                state.continue_()
        route.fulfill(response=answer)

    page.route("**/api/scores?*", decide_after_the_list_was_read)
    page.route("**/api/state", lambda route: route.continue_() if decided else states.append(route))
    page.goto("/judge")
    expect(page.locator("#counts")).to_contain_text("looked at1")


def test_what_still_grows_is_not_shown_as_a_total(page, parts):
    held = []
    job = {
        "id": 1,
        "kind": "score",
        "state": "running",
        "title": "Scoring images",
        "done": 1,
        "total": 20,
        "remaining_s": 9,
    }

    def busy(route):
        state = route.fetch().json()
        route.fulfill(json={**state, "running": 1, "current": job})

    def hold(route):
        held.append(route)

    page.route("**/api/state", busy)
    page.route("**/api/inspection/images*", hold)
    page.goto("/judge")
    text = page.locator("#queue-text")
    expect(text).to_have_text("Scoring images · 1 of 20 · about 9 s")
    expect(page.locator("#queue-progress")).to_have_js_property("value", 1)
    page.locator("#drop input[type=file]").set_input_files(as_files(parts.good[4:5]))
    expect(page.locator("#sending")).to_have_text("Sending 1 of 1")
    expect(text).to_have_text("Scoring images")
    expect(page.locator("#queue-progress")).to_be_hidden()
    held[0].fulfill(status=201, json={"sha": "", "name": ""})
    expect(text).to_have_text("Scoring images · 1 of 20 · about 9 s")
