"""Errors as answers: one sentence, no path, no traceback."""

from __future__ import annotations

import asyncio

import pytest

from sparcal.server.sentences import DISK_FULL as FULL
from sparcal.server.settings import WebSettings
from sparcal.server.web.app import create_app
from tests.support.unstaffed import PNG, client_of, csrf_of


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"{", 422),
        (b'{"name": "\\ud800"}', 422),
        (b'{"name": "a\\u0000b"}', 422),
        (b'{"name": ".."}', 422),
        (b'{"name": "L", "state": "accepted"}', 422),
        (b"[" * 100_000, 400),
        (b'{"name": "' + b"x" * 2**21 + b'"}', 413),
        (b'{"name": 1e999}', 422),
        ('{"name": "Charge 7/B 🔩"}'.encode(), 201),
    ],
)
def test_odd_bodies_get_a_sentence(client, csrf, body, status):
    answer = client.post("/api/drafts", content=body, headers={**csrf, "Content-Type": "application/json"})
    assert answer.status_code == status
    assert ("error" in answer.json()) == (status != 201)


def test_errors_show_no_path_and_no_traceback(client, folder, monkeypatch):
    (folder / "station.json").write_text("{")
    answer = client.get("/api/state")
    assert answer.status_code == 500
    assert str(folder.parent) not in answer.text
    assert "station.json was expected to be a JSON file" in answer.json()["error"]
    monkeypatch.setattr("sparcal.server.web.api.jobs.list_jobs", None)
    monkeypatch.setattr("sparcal.server.data.jobs.recent", lambda _: 1 / 0)
    answer = client.get("/api/jobs")
    assert (answer.status_code, answer.json()) == (
        500,
        {"error": "Something unexpected happened: the server's log says what."},
    )
    page = client.get("/nowhere", headers={"Accept": "text/html"})
    assert page.status_code == 404
    assert "There is nothing at this address." in page.text


def test_numbers_that_no_database_holds_are_refused(client, csrf):
    for number in (0, -1, 2**63, 10**30):
        assert client.get(f"/api/drafts/{number}").status_code == 422
        assert client.post(f"/api/jobs/{number}/cancel", headers=csrf).status_code == 422
    assert client.get("/api/drafts/7").json() == {"error": "There is no draft 7."}


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"name": ".."}, "A lot needs a name of at least one character"),
        ({}, "name is missing: fill it in."),
        ({"name": "x" * 201}, "name must have at most 200 characters, got 201: shorten it."),
        ({"name": "L1", "state": "open"}, "state is not known here: leave it out."),
        ({"name": 7}, "name must be a text, got a number: change it."),
        ({"name": ""}, "name must have at least 1 character, got '': fill it in."),
    ],
)
def test_a_wrong_value_is_told_in_words(client, csrf, body, sentence):
    answer = client.post("/api/drafts", json=body, headers=csrf)
    assert answer.status_code == 422
    assert answer.json()["error"].startswith(sentence)
    assert "Value error" not in answer.text


@pytest.mark.parametrize("threshold", ["-5", "0", "1e400"])
def test_a_threshold_must_be_above_zero(client, csrf, threshold):
    body = f'{{"decision": "accept", "operator": "A", "threshold": {threshold}}}'
    answer = client.post("/api/drafts/1/decision", content=body, headers={**csrf, "Content-Type": "application/json"})
    assert answer.status_code == 422
    assert "threshold must be" in answer.json()["error"]


def test_a_full_disk_is_told_in_words(client, csrf, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sparcal.server.data.store.os.fsync", full)
    answer = client.post("/api/inspection/images", content=PNG, headers=csrf)
    assert (answer.status_code, answer.json()["error"]) == (507, FULL)


def test_an_upload_that_breaks_off_is_no_accident(folder, caplog):
    """A browser that goes away in the middle is not worth a traceback."""
    app = create_app(WebSettings(folder), worker=False)
    csrf = csrf_of(client_of(folder))["X-Sparcal-CSRF"]
    pieces = iter([{"type": "http.request", "body": PNG, "more_body": True}, {"type": "http.disconnect"}])
    sent = []

    async def receive():
        return next(pieces)

    async def send(message):
        sent.append(message)

    headers = [(b"host", b"127.0.0.1:8765"), (b"x-sparcal-csrf", csrf.encode())]
    scope = {
        "type": "http", "method": "POST", "path": "/api/inspection/images", "query_string": b"", "headers": headers,
        "http_version": "1.1", "scheme": "http", "server": ("127.0.0.1", 8765), "client": ("127.0.0.1", 9), "root_path": "",
    }  # fmt: skip
    asyncio.run(app(scope, receive, send))
    assert sent[0]["status"] == 400
    assert not caplog.records
    assert not list((folder / "web/incoming").iterdir())
