"""Errors as answers: one sentence, no path, no traceback."""

from __future__ import annotations

import pytest


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
