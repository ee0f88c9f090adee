"""Pages and routes that people reach by hand: drafts, reports, and what is not there."""

from __future__ import annotations

import pytest

from sparcal.files.json_record import now
from sparcal.server.data.drafts import CALIBRATION_STEPS
from sparcal.server.data.room import LEAST_FREE
from sparcal.server.sentences import DISK_FULL
from tests.support.unstaffed import PNG, csrf_of, new_draft


def test_drafts_are_listed_so_that_two_people_can_have_one_each(client, csrf):
    first, second = new_draft(client, csrf, "L1"), new_draft(client, csrf, "L2")
    client.post(f"/api/drafts/{first}/images", content=PNG, headers=csrf)
    listed = client.get("/api/drafts").json()["drafts"]
    assert [(one["id"], one["name"], one["images"], one["good"]) for one in listed] == [
        (second, "L2", 0, 0),
        (first, "L1", 1, 0),
    ]
    assert client.get("/new").status_code == 200, "nobody is sent to somebody else's draft"


def test_a_new_lot_begins_with_the_images_of_an_earlier_draft(client, csrf):
    first = new_draft(client, csrf, "L1")
    sha = client.post(f"/api/drafts/{first}/images", content=PNG, headers=csrf).json()["sha"]
    client.post(f"/api/drafts/{first}/decision", json={"decision": "discard", "operator": "A. Roth"}, headers=csrf)
    begun = client.post("/api/drafts", json={"name": "L1 2", "images_of": first}, headers=csrf).json()
    assert [(image["sha"], image["good"]) for image in begun["images"]] == [(sha, False)]
    lost = client.post("/api/drafts", json={"name": "L3", "images_of": 99}, headers=csrf)
    assert (lost.status_code, lost.json()["error"]) == (404, "There is no draft 99.")
    assert "L3" not in [one["name"] for one in client.get("/api/drafts").json()["drafts"]]


@pytest.mark.parametrize(
    "path", ["/new?draft=99", "/new?draft=x", "/new?draft=-1", "/judge?lot=L9", "/report?lot=L9", "/report"]
)
def test_what_is_not_there_is_a_page(client, path):
    answer = client.get(path, headers={"Accept": "text/html"})
    assert answer.status_code in {404, 422}
    assert "Judge parts" in answer.text


def test_a_disk_that_is_full_is_told_on_every_page(client, csrf, monkeypatch):
    assert client.get("/api/state").json()["trouble"] is None
    with client.app.state.context.database.write() as connection:
        connection.execute(
            "INSERT INTO jobs (kind, subject, priority, state, created) VALUES ('read', '{}', 0, 'running', '')"
        )
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": LEAST_FREE - 1})())
    state = client.get("/api/state").json()
    assert (state["trouble"], state["current"]["state"]) == (DISK_FULL, "held")
    (job,) = client.get("/api/jobs").json()["jobs"]
    assert (job["state"], job["message"]) == ("held", DISK_FULL)
    assert csrf == csrf_of(client)


@pytest.mark.parametrize(
    ("kind", "done", "title", "told"),
    [
        ("calibrate", CALIBRATION_STEPS - 1, "Calibrating the lot", False),
        ("calibrate", CALIBRATION_STEPS, "Drawing parts before and after", False),
        ("score", CALIBRATION_STEPS, "Scoring images", True),
    ],
)
def test_how_long_is_told_only_where_steps_are_alike(client, kind, done, title, told):
    with client.app.state.context.database.write() as connection:
        connection.execute(
            "INSERT INTO jobs (kind, subject, priority, state, created, started, done, total) "
            "VALUES (?, '{}', 0, 'running', '', ?, ?, 21)",
            (kind, now(), done),
        )
    job = client.get("/api/state").json()["current"]
    assert (job["title"], job["remaining_s"] is not None) == (title, told)
