"""Who gets in: hosts, tokens, cross-site requests, headers."""

from __future__ import annotations

import re
import time

import pytest

from sparcal.server.web import security
from sparcal.server.web.security import Keys
from tests.support.unstaffed import PNG, TOKEN, bare_station, client_of


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
    assert "set-cookie" not in wrong.headers
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
    name = client.app.state.context.keys.cookie
    assert client.get("/api/state", headers={"Cookie": f"{name}={cookie}".encode()}).status_code == 401


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


def test_a_wrong_bearer_token_takes_as_long_as_a_wrong_log_in(folder):
    client = client_of(folder, token=TOKEN)
    began = time.monotonic()
    assert client.get("/api/state", headers={"Authorization": "Bearer wrong token here"}).status_code == 401
    assert time.monotonic() - began >= 0.5
    began = time.monotonic()
    assert client.get("/api/state").status_code == 401
    assert time.monotonic() - began < 0.4, "who shows nothing guesses nothing"


def test_two_stations_on_one_host_name_have_a_session_each(tmp_path):
    first, second = (client_of(bare_station(tmp_path / name), token=TOKEN) for name in ("line-3", "line-4"))
    cookies = {}
    for client in (first, second):  # one browser: cookies know no port
        cookies |= dict(client.post("/login", data={"token": TOKEN}).cookies)
    for client in (first, second):
        client.cookies = cookies
        assert client.get("/judge").status_code == 200
    assert len(cookies) == 2


def test_signing_out_ends_the_session(folder):
    client = client_of(folder, token=TOKEN)
    client.post("/login", data={"token": TOKEN})
    page = client.get("/judge").text
    assert "Sign out" in page
    csrf = re.search(r'name="csrf" content="(\w+)"', page).group(1)
    kept = dict(client.cookies)
    assert client.post("/logout", data={}).status_code == 403
    assert client.post("/logout", headers={"X-Sparcal-CSRF": csrf}).headers["location"] == "/login"
    assert client.get("/judge").headers["location"] == "/login"
    client.cookies = kept
    assert client.get("/judge").headers["location"] == "/login", "a copy of the cookie is worth nothing either"
    assert "Sign out" not in client_of(folder).get("/judge").text


@pytest.mark.parametrize(
    ("base", "headers", "secure"),
    [
        ("http://127.0.0.1:8765", {}, False),
        ("https://127.0.0.1:8765", {}, True),
        ("http://127.0.0.1:8765", {"X-Forwarded-Proto": "https"}, True),
    ],
)
def test_the_cookie_is_secure_behind_tls(folder, base, headers, secure):
    cookie = client_of(folder, base=base, token=TOKEN).post("/login", data={"token": TOKEN}, headers=headers)
    assert ("Secure" in cookie.headers["set-cookie"]) == secure
