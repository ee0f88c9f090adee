"""A web station without a worker: what the worker would do is done by hand, so that tests need no second process."""

from __future__ import annotations

from starlette.testclient import TestClient

from sparcal.files.json_record import now, write_record
from sparcal.server.settings import Limits, WebSettings
from sparcal.server.web.app import create_app

ADDRESS = "http://127.0.0.1:8765"
TOKEN = "correct horse battery"
PNG = b"\x89PNG\r\n\x1a\n" + b"not really an image"
SHA = "ab" * 32


def bare_station(path):
    """A folder that passes for a station as long as nothing is judged."""
    write_record(path / "station.json", "station", {"created": "2026-01-01T00:00:00.000+00:00", "images": []})
    return path


def client_of(folder, *, base=ADDRESS, limits=None, **settings):
    """A client of the web station on this folder."""
    app = create_app(WebSettings(folder, limits=limits or Limits(), **settings), worker=False)
    return TestClient(app, base_url=base, follow_redirects=False, raise_server_exceptions=False)


def csrf_of(client):
    """The header that every change needs."""
    return {"X-Sparcal-CSRF": client.get("/api/session").json()["csrf"]}


def new_draft(client, csrf, name="L1"):
    return client.post("/api/drafts", json={"name": name}, headers=csrf).json()["id"]


def add_image(connection, sha=SHA, name="a.png"):
    """An image that the worker has read, as far as the database knows."""
    connection.execute("INSERT INTO images VALUES (?, ?, 10, 'png', 'ready', 4, 3, NULL, ?)", (sha, name, now()))
