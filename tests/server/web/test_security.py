"""Who gets in and what comes out: hosts, tokens, cross-site requests, headers, uploads, errors."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from sparcal.errors import ArtifactError, DataError
from sparcal.files.json_record import write_record
from sparcal.server.data.store import display_name, sniff
from sparcal.server.settings import Limits, Settings
from sparcal.server.web import security
from sparcal.server.web.app import create_app
from sparcal.server.web.security import COOKIE, Keys

TOKEN = "correct horse battery"
PNG = b"\x89PNG\r\n\x1a\n" + b"not really an image"


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "line-3"
    write_record(path / "station.json", "station", {"created": "2026-01-01T00:00:00.000+00:00"})
    return path


def client_of(folder, *, base="http://127.0.0.1:8765", **settings):
    app = create_app(Settings(folder, **settings), worker=False)
    return TestClient(app, base_url=base, follow_redirects=False, raise_server_exceptions=False)


@pytest.fixture
def client(folder):
    return client_of(folder)


@pytest.fixture
def csrf(client):
    return {"X-Sparcal-CSRF": client.get("/api/session").json()["csrf"]}


def new_draft(client, csrf, name="L1"):
    return client.post("/api/drafts", json={"name": name}, headers=csrf).json()["id"]


def test_other_addresses_need_a_token_unless_somebody_insists(folder):
    with pytest.raises(DataError, match="Serving on 0.0.0.0 lets other machines in, so it needs a token"):
        Settings(folder, host="0.0.0.0")
    with pytest.raises(DataError, match="at least 12 characters, got 5"):
        Settings(folder, host="0.0.0.0", token="short")
    with pytest.raises(DataError, match="watched folder must be a folder"):
        Settings(folder, watch=folder / "nowhere")
    assert Settings(folder, host="0.0.0.0", insecure=True).token is None
    assert Settings(folder, host="::1").token is None
    with pytest.raises(ArtifactError, match="There is no station at"):
        create_app(Settings(folder / "nowhere"), worker=False)


@pytest.mark.parametrize("path", ["/judge", "/api/state", "/nowhere", "/static/station.css", "/api/drafts/0", "/login"])
def test_every_answer_carries_the_headers(client, path):
    answer = client.get(path)
    for name, value in security.HEADERS.items():
        assert answer.headers[name] == value
    policy = answer.headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["Cache-Control"] == "no-store" or path.startswith("/static")
    assert "server" not in answer.headers


@pytest.mark.parametrize("page", ["/judge", "/new", "/lots", "/api/docs"])
def test_pages_hold_no_inline_code_and_name_no_other_place(client, page):
    text = client.get(page).text
    assert not re.search(r"<script(?![^>]*\bsrc=)[^>]*>|<style|\son\w+=|\sstyle=|javascript:", text)
    assert not re.findall(r"(?:src|href|action)=\"(?:https?:)?//", text)
    for asset in re.findall(r"(?:src|href)=\"(/static/[^\"]+)\"", text):
        assert client.get(asset).status_code == 200


def test_static_files_name_no_other_place():
    for path in (Path(security.__file__).parent / "static").iterdir():
        found = set(re.findall(r"https?://[^\s\"')]+", path.read_text(encoding="utf-8")))
        assert found <= {"http://www.w3.org/2000/svg"}, path


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "", "[bad", "a b"])
def test_a_name_that_is_not_ours_is_refused(client, host):
    answer = client.get("/api/state", headers={"Host": host})
    assert answer.status_code == 421
    assert "not one of the station's names" in answer.json()["error"]


@pytest.mark.parametrize(
    "host", ["localhost:8765", "127.0.0.1", "[::1]:8765", "192.168.7.20:8765", "line3.plant.example"]
)
def test_addresses_and_names_that_were_given_are_ours(folder, host):
    assert (
        client_of(folder, names=("line3.plant.example",)).get("/api/state", headers={"Host": host}).status_code == 200
    )


def test_a_change_needs_the_pages_value_and_our_origin(client, csrf):
    assert client.post("/api/drafts", json={"name": "L1"}).status_code == 403
    wrong = client.post("/api/drafts", json={"name": "L1"}, headers={"X-Sparcal-CSRF": "0" * 64})
    assert (wrong.status_code, wrong.json()["error"]) == (403, "The page is out of date: reload it and try again.")
    for crossing in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ):
        refused = client.post("/api/drafts", json={"name": "L1"}, headers={**csrf, **crossing})
        assert refused.status_code == 403, crossing
        assert "own page" in refused.json()["error"]
    assert client.get("/api/audit").json()["entries"] == []
    own = {**csrf, "Origin": "http://127.0.0.1:8765", "Sec-Fetch-Site": "same-origin"}
    assert client.post("/api/drafts", json={"name": "L1"}, headers=own).status_code == 201


def test_a_cross_site_form_cannot_post(client):
    answer = client.post(
        "/api/inspection/images", content=PNG, headers={"Content-Type": "text/plain", "Origin": "https://evil.example"}
    )
    assert answer.status_code == 403


def test_the_token_opens_as_cookie_and_as_bearer(folder):
    client = client_of(folder, token=TOKEN)
    assert client.get("/judge").headers["location"] == "/login"
    assert client.get("/api/state").status_code == 401
    assert client.get("/openapi.json").status_code == 303
    assert client.get("/api/state", headers={"Authorization": "Bearer wrong token here"}).status_code == 401
    assert client.get("/api/state", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    made = client.post("/api/drafts", json={"name": "L1"}, headers={"Authorization": f"Bearer {TOKEN}"})
    assert made.status_code == 201, "no cookie is involved, so there is nothing to forge"
    began = time.monotonic()
    wrong = client.post("/login", data={"token": "wrong token here"})
    assert wrong.status_code == 401
    assert time.monotonic() - began >= 0.5
    assert COOKIE not in wrong.headers.get("set-cookie", "")
    right = client.post("/login", data={"token": TOKEN})
    cookie = right.headers["set-cookie"]
    assert right.status_code == 303
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie
    assert client.get("/judge").status_code == 200
    assert client.post("/api/drafts", json={"name": "L2"}).status_code == 403, "the cookie alone is not enough"
    csrf = re.search(r'name="csrf" content="(\w+)"', client.get("/judge").text).group(1)
    assert client.post("/api/drafts", json={"name": "L2"}, headers={"X-Sparcal-CSRF": csrf}).status_code == 201
    assert client.post("/login", data={"token": TOKEN}, headers={"Origin": "https://evil.example"}).status_code == 403


@pytest.mark.parametrize("cookie", ["", "x", "a.b.c", "a.9999999999.0000", ".", "ÿ.1.2", "a" * 5000])
def test_a_made_up_cookie_is_refused(folder, cookie):
    client = client_of(folder, token=TOKEN)
    assert client.get("/api/state", headers={"Cookie": f"{COOKIE}={cookie}".encode()}).status_code == 401


def test_sessions_end_with_time_and_with_the_token(monkeypatch):
    keys = Keys(b"s" * 32, TOKEN)
    session = keys.new_session()
    assert keys.is_session(session)
    assert not keys.is_session(session[:-1] + ("0" if session[-1] != "0" else "1"))
    assert not Keys(b"s" * 32, "another token entirely").is_session(session)
    assert not Keys(b"t" * 32, TOKEN).is_session(session)
    later = time.time() + security.SESSION_S + 1
    monkeypatch.setattr(security.time, "time", lambda: later)
    assert not keys.is_session(session)


def test_the_secret_survives_a_restart_and_is_private(folder):
    first, second = client_of(folder), client_of(folder)
    assert first.get("/api/session").json() == second.get("/api/session").json()
    assert (folder / "web/secret").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd",
        "..\\..\\windows\\system32",
        "/etc/shadow",
        "a\x00b.png",
        "%2e%2e%2fx",
        "\u202egnp.exe",
        "💥" * 200,
        "",
    ],
)
def test_names_from_outside_never_become_paths(client, csrf, folder, name):
    draft = new_draft(client, csrf)
    answer = client.post(f"/api/drafts/{draft}/images", params={"name": name}, content=PNG, headers=csrf)
    assert answer.status_code == (201 if len(name) <= 500 else 422)
    shown = answer.json()["name"]
    assert "/" not in shown
    assert "\\" not in shown
    assert shown.isprintable()
    assert 1 <= len(shown) <= 120
    files = sorted(path.relative_to(folder / "web").parts[0] for path in (folder / "web").rglob("*") if path.is_file())
    assert set(files) <= {"images", "secret", "station.sqlite3", "station.sqlite3-wal", "station.sqlite3-shm"}


@pytest.mark.parametrize(
    "sha", ["../secret", "..%2fsecret", "%2e%2e%2f%2e%2e%2fstation.json", "A" * 64, "0" * 63, "0" * 64]
)
@pytest.mark.parametrize("what", ["thumb", "native", "heat"])
def test_pictures_are_reached_by_hash_only(client, sha, what):
    answer = client.get(f"/api/images/{sha}/{what}")
    assert answer.status_code in {404, 422}
    assert set(answer.json()) == {"error"}


@pytest.mark.parametrize(
    "path", ["/static/../security.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static//etc/passwd"]
)
def test_static_files_stay_in_their_folder(client, path):
    assert client.get(path).status_code == 404


def test_uploads_beyond_the_limit_are_cut_off_and_leave_nothing(folder):
    client = client_of(folder, limits=Limits(upload_bytes=100_000))
    csrf = {"X-Sparcal-CSRF": client.get("/api/session").json()["csrf"]}
    sent = 0

    def endless():
        nonlocal sent
        yield PNG
        while sent < 2**30:
            sent += 65536
            yield b"\0" * 65536

    answer = client.post("/api/inspection/images", content=endless(), headers=csrf)
    assert answer.status_code == 413
    assert "at most 0 MB" in answer.json()["error"]
    assert not [
        path
        for path in (folder / "web").rglob("*")
        if path.is_file() and path.stat().st_size > 100_000 and "sqlite" not in path.name
    ]
    assert not list((folder / "web/incoming").iterdir())


@pytest.mark.parametrize(
    "content", [b"", b"GIF89a...", b"<svg onload=alert(1)>", b"PK\x03\x04zip", b"\x7fELF", b"%PDF-1.7"]
)
def test_what_is_no_image_is_refused(client, csrf, content):
    answer = client.post("/api/inspection/images", content=content, headers=csrf)
    assert answer.status_code == 400
    assert answer.json()["error"] == "An upload must be a PNG, JPEG, BMP, TIFF or WebP image, got something else."


def test_the_number_of_images_is_limited(folder):
    client = client_of(folder, limits=Limits(images=2, draft_images=1))
    csrf = {"X-Sparcal-CSRF": client.get("/api/session").json()["csrf"]}
    draft = new_draft(client, csrf)
    send = lambda n: client.post(f"/api/drafts/{draft}/images", content=PNG + bytes([n]), headers=csrf)  # noqa: E731
    assert send(0).status_code == 201
    assert send(0).status_code == 201
    assert (send(1).status_code, "at most 1 images" in send(1).json()["error"]) == (409, True)
    inspect = lambda n: client.post("/api/inspection/images", content=PNG + bytes([n]), headers=csrf)  # noqa: E731
    assert inspect(2).status_code == 201
    assert inspect(3).status_code == 413
    assert client.get("/api/state").json()["queued"] == 2


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


def test_kinds_are_told_by_content_and_names_are_cut():
    starts = {
        "png": PNG,
        "jpeg": b"\xff\xd8\xff\xe0",
        "bmp": b"BM00",
        "tiff": b"II*\0",
        "webp": b"RIFF0000WEBP",
        None: b"MZ",
    }
    assert all(sniff(start) == kind for kind, start in starts.items())
    assert display_name("x" * 300 + ".png") == "x" * 116 + ".png"
    assert display_name("///") == "image"
