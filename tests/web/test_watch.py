"""Images from a watched folder, and formats that browsers cannot show."""

from __future__ import annotations

import io
import os
import shutil
import time

import httpx
import pytest
from PIL import Image
from served import serve

OLD = time.time() - 60


@pytest.fixture(scope="module")
def watched(parts_and_station, parts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("watched")
    shutil.copytree(parts_and_station[1], folder / "line 3")
    (folder / "in").mkdir()
    for name, content in parts.good[8:10]:
        (folder / "in" / name).write_bytes(content)
    tiff = io.BytesIO()
    Image.open(io.BytesIO(parts.bad[4][1])).save(tiff, "TIFF")
    (folder / "in" / "tenth.tif").write_bytes(tiff.getvalue())
    (folder / "in" / "note.png").write_bytes(b"no image at all")
    for path in (folder / "in").iterdir():
        os.utime(path, (OLD, OLD))
    (folder / "in" / "growing.png").write_bytes(parts.good[10][1][:300])
    os.utime(folder / "in" / "growing.png", (OLD + 3600, OLD + 3600))
    with serve(folder / "line 3", "--watch", str(folder / "in"), "--token", "correct horse battery") as running:
        running.client.headers["Authorization"] = "Bearer correct horse battery"
        yield running


def test_what_lies_in_the_watched_folder_is_judged_once(watched):
    for _ in range(2):
        watched.post("/inspection/collect")
        watched.idle()
    rows = {row["name"]: row for row in watched.get("/scores")["scores"]}
    assert sorted(rows) == ["good_008.png", "good_009.png", "tenth.tif"], "what is no image, or still grows, stays"
    assert all(row["score"] is not None for row in rows.values())
    collected = [job for job in watched.get("/jobs")["jobs"] if job["kind"] == "collect"]
    assert collected[0]["message"] == "3 images taken, 1 refused."


def test_a_tiff_is_shown_in_a_format_that_browsers_know(watched):
    row = next(row for row in watched.get("/scores")["scores"] if row["name"] == "tenth.tif")
    for what in ("native", "thumb", "heat"):
        answer = watched.client.get(f"/api/images/{row['sha']}/{what}")
        assert answer.headers["content-type"] == "image/webp"
        assert "immutable" in answer.headers["cache-control"]
    native = Image.open(io.BytesIO(watched.client.get(f"/api/images/{row['sha']}/native").content))
    assert native.size == (row["width"], row["height"])


def test_a_draft_takes_the_same_images(watched):
    draft = watched.post("/drafts", {"name": "from the folder"})["id"]
    watched.post(f"/drafts/{draft}/collect")
    watched.idle()
    images = watched.get(f"/drafts/{draft}")["images"]
    assert [image["state"] for image in images] == ["ready"] * 3


def test_the_token_is_asked_for(watched):
    assert httpx.get(f"{watched.address}/api/state").status_code == 401
    assert httpx.get(f"{watched.address}/judge").headers["location"] == "/login"
