"""Alarms over HTTP: on every page, with parts to begin a lot from, dismissed by somebody with a reason."""

from __future__ import annotations

import pytest

from sparcal.server.data import alarms, drafts, scores
from tests.support.unstaffed import add_image

WHAT = "the whole image is darker (-20%), not a local defect"


@pytest.fixture
def alarm(client):
    """Twenty parts, of which the last eighteen look different."""
    with client.app.state.context.database.write() as connection:
        numbers = []
        for number in range(20):
            sha = f"{number:064x}"
            add_image(connection, sha, f"{number}.png")
            verdict = "fail" if number > 12 else "pass"
            scores.add(connection, sha, "", {"score": 1.0, "threshold": 2.0, "verdict": verdict})
            numbers.append(alarms.keep_reading(connection, sha, "", [0.0]))
        return alarms.raise_alarm(connection, "", first=numbers[2], last=numbers[9], what=WHAT)


def test_the_state_tells_of_it(client, alarm):
    found = client.get("/api/state").json()["alarm"]
    assert (found["id"], found["what"], found["count"], found["failed"]) == (alarm, WHAT, 18, 7)
    assert [part["name"] for part in found["parts"]] == [f"{number}.png" for number in range(19, 13, -1)]
    assert client.get("/api/alarms").json()["alarms"] == [found]
    trend = client.get("/api/trend").json()
    assert trend["alarms"] == [{"first": found["first"], "last": found["last"], "what": WHAT}]
    assert client.get("/api/trend?limit=5").json()["alarms"] == [], "it was noticed before these"


def test_a_lot_begins_with_its_latest_parts(client, csrf, alarm):
    answer = client.post(f"/api/alarms/{alarm}/draft", json={"name": "L7"}, headers=csrf)
    assert answer.status_code == 201
    draft = answer.json()
    assert [image["name"] for image in draft["images"]] == [f"{number}.png" for number in range(19, 3, -1)]
    assert not any(image["good"] for image in draft["images"]), "somebody still has to look"
    assert client.get("/api/state").json()["alarm"]["draft"] == draft["id"]
    again = client.post(f"/api/alarms/{alarm}/draft", json={"name": "L7"}, headers=csrf)
    assert (again.status_code, "is open already" in again.json()["error"]) == (409, True)
    with client.app.state.context.database.write() as connection:
        drafts.close_draft(connection, draft["id"], "discard")
    assert client.get("/api/state").json()["alarm"]["draft"] is None, "a discarded draft leaves the question open"


def test_a_lot_cannot_begin_with_parts_that_are_gone(client, csrf, alarm):
    with client.app.state.context.database.write() as connection:
        connection.execute("UPDATE images SET state = 'removed'")
    answer = client.post(f"/api/alarms/{alarm}/draft", json={"name": "L7"}, headers=csrf)
    assert (answer.status_code, answer.json()["error"]) == (
        409,
        "No picture of these parts is left: begin a new lot with other images.",
    )
    assert client.get("/api/drafts").json()["drafts"] == []


def test_it_is_dismissed_once_with_a_name_and_a_reason(client, csrf, alarm):
    path = f"/api/alarms/{alarm}/dismiss"
    assert client.post(path, json={"operator": "A. Roth"}, headers=csrf).status_code == 422
    assert client.post(path, json={"operator": "A. Roth", "reason": " "}, headers=csrf).status_code == 422
    body = {"operator": "A. Roth", "reason": "new lamp, same parts"}
    answer = client.post(path, json=body, headers=csrf)
    assert (answer.status_code, answer.json()["outcome"]) == (200, "dismissed")
    assert client.get("/api/state").json()["alarm"] is None
    assert client.post(path, json=body, headers=csrf).status_code == 409
    assert client.post("/api/alarms/99/dismiss", json=body, headers=csrf).status_code == 404
    entries = client.get("/api/audit").json()["entries"]
    assert [(entry["kind"], entry["operator"]) for entry in entries[:2]] == [
        ("dismiss", "A. Roth"),
        ("alarm", "the station"),
    ]


@pytest.mark.parametrize("page", ["/judge", "/new", "/lots"])
def test_every_page_has_a_place_for_it(client, page):
    assert 'id="alarm"' in client.get(page).text
