"""Uploads on their way to disk: names, kinds, limits."""

from __future__ import annotations

import pytest

from sparcal.server.data.store import display_name, file_name, sniff
from sparcal.server.settings import Limits
from tests.support.unstaffed import PNG, client_of, csrf_of, new_draft


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


def test_uploads_beyond_the_limit_are_cut_off_and_leave_nothing(folder):
    client = client_of(folder, limits=Limits(upload_bytes=100_000))
    csrf = csrf_of(client)
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
    csrf = csrf_of(client)
    draft = new_draft(client, csrf)
    send = lambda n: client.post(f"/api/drafts/{draft}/images", content=PNG + bytes([n]), headers=csrf)  # noqa: E731
    assert send(0).status_code == 201
    assert send(0).status_code == 201
    assert (send(1).status_code, "at most 1 images" in send(1).json()["error"]) == (409, True)
    inspect = lambda n: client.post("/api/inspection/images", content=PNG + bytes([n]), headers=csrf)  # noqa: E731
    assert inspect(2).status_code == 201
    assert inspect(3).status_code == 413
    assert client.get("/api/state").json()["queued"] == 2


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


def test_a_name_of_many_bytes_becomes_a_file_name_that_every_system_takes():
    for name in ("图" * 116 + ".png", "💥" * 100 + ".tiff", "x" * 116 + ".png", "图" * 120):
        cut = file_name(name)
        assert len(cut.encode()) <= 200
        assert cut == name or cut.rpartition(".")[2] == name.rpartition(".")[2] or "." not in name
    assert file_name("part 7.png") == "part 7.png"
    assert file_name("..") not in {".", ".."}
