"""Images from a watched folder, asked for or judged as they arrive, and formats that browsers cannot show."""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
import threading
import time
from contextlib import contextmanager

import httpx
import pytest
from PIL import Image
from playwright.sync_api import expect

from tests.support.browsing import patient_context, photograph, sign
from tests.support.served import children, serve

TOKEN = "correct horse battery"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the station and the folder that it watches are."""
    return tmp_path_factory.mktemp("watched")


@pytest.fixture(scope="module")
def watched(parts_and_station, parts, folder):
    shutil.copytree(parts_and_station[1], folder / "line 3")
    (folder / "in").mkdir()
    with serve(folder / "line 3", "--watch", str(folder / "in"), "--token", TOKEN) as running:
        running.client.headers["Authorization"] = f"Bearer {TOKEN}"
        running.post("/inspection/watch", {"on": False, "operator": "M. Weber"})
        _fill(folder / "in", parts)
        with growing(folder / "in" / "growing.png", parts.good[10][1]):
            yield running


@contextmanager
def growing(path, content):
    """A file that somebody writes slowly, until the block ends."""
    over = threading.Event()

    def write():
        with path.open("wb", buffering=0) as out:
            out.write(content[:300])
            for byte in content[300:]:
                if over.wait(0.05):
                    return
                out.write(bytes([byte]))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        over.set()
        writer.join()


def _fill(folder, parts):
    for name, content in parts.good[8:10]:
        (folder / name).write_bytes(content)
    tiff = io.BytesIO()
    Image.open(io.BytesIO(parts.bad[4][1])).save(tiff, "TIFF")
    (folder / "tenth.tif").write_bytes(tiff.getvalue())
    (folder / "note.png").write_bytes(b"no image at all")


def test_what_lies_in_the_watched_folder_is_judged_once(watched):
    for _ in range(2):
        watched.post("/inspection/collect")
        watched.idle()
    rows = {row["name"]: row for row in watched.get("/scores")["scores"]}
    assert sorted(rows) == ["good_008.png", "good_009.png", "tenth.tif"], "what is no image, or still grows, stays"
    assert all(row["score"] is not None for row in rows.values())
    collected = [job for job in watched.get("/jobs")["jobs"] if job["kind"] == "collect"]
    assert collected[0]["message"] == "3 images taken, 1 refused: note.png."


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


def test_images_are_judged_as_they_arrive_also_after_kills_and_restarts(parts_and_station, parts, tmp_path):
    station, folder = tmp_path / "line-3", tmp_path / "in"
    shutil.copytree(parts_and_station[1], station)
    folder.mkdir()
    (folder / "before.png").write_bytes(parts.good[0][1])
    with serve(station, "--watch", str(folder)) as first:
        first.wait(lambda: first.get("/scores")["counts"]["scored"] == 1)
        half = len(parts.bad[0][1]) // 2
        with (folder / "slow.png").open("wb") as out:
            out.write(parts.bad[0][1][:half])
            out.flush()
            (folder / "copy.png").write_bytes(parts.good[0][1])
            (folder / "second.png").write_bytes(parts.good[1][1])
            out.write(parts.bad[0][1][half:])
        first.wait(lambda: children(first.process.pid))
        os.kill(children(first.process.pid)[0], signal.SIGKILL)
        first.wait(lambda: first.get("/scores")["counts"]["scored"] == 3)
        first.post("/inspection/watch", {"on": False, "operator": "A. Roth"})
    (folder / "third.png").write_bytes(parts.good[2][1])
    with serve(station, "--watch", str(folder)) as second:
        state = second.get("/state")["watch"]
        assert (state["on"], state["operator"]) == (False, "A. Roth")
        second.idle()
        time.sleep(5)
        assert second.get("/scores")["counts"]["scored"] == 3, "it stays off"
        answer = second.post("/inspection/watch", {"on": True, "operator": "B. Kern"})
        assert (answer["on"], answer["operator"]) == (True, "B. Kern")
        second.wait(lambda: second.get("/scores")["counts"]["scored"] == 4)
        second.idle()
        names = sorted(row["name"] for row in second.get("/scores")["scores"])
        assert [name for name in names if name not in ("before.png", "copy.png")] == [
            "second.png",
            "slow.png",
            "third.png",
        ]
        assert len(names) == 4, "the copy is known"
        said = [(entry["operator"], entry["sentence"]) for entry in second.get("/audit")["entries"]][:2]
        assert said == [
            ("B. Kern", "switched the judging of the watched folder on"),
            ("A. Roth", "switched the judging of the watched folder off"),
        ]


def test_a_station_without_a_folder_has_nothing_to_switch(served):
    answer = served.client.post("/api/inspection/watch", json={"on": True, "operator": "A. Roth"})
    assert (answer.status_code, answer.json()["error"]) == (
        409,
        "The station watches no folder: start it with --watch FOLDER.",
    )
    assert served.get("/state")["watch"] is None


def test_the_switch_on_the_page_asks_who_and_says_since_when_and_if_the_folder_is_away(
    watched, folder, chromium, album
):
    context = patient_context(chromium, base_url=watched.address, viewport={"width": 1440, "height": 1000})
    page = context.new_page()
    page.goto("/login")
    photograph(page, album, "login")
    page.locator("input[type=password]").fill(TOKEN)
    page.keyboard.press("Enter")
    switch = page.get_by_role("switch", name="Judge the folder as images arrive")
    expect(switch).not_to_be_checked()
    expect(page.locator("#watch-since")).to_contain_text("M. Weber")
    expect(page.locator("#list button").first).to_be_visible()
    switch.click()
    page.locator("#sign").get_by_role("button", name="Back").click()
    expect(switch).not_to_be_checked()
    page.keyboard.press("w")
    sign(page, "A. Roth", "Switch on")
    expect(switch).to_be_checked()
    expect(page.locator("#watch-since")).to_have_text(re.compile("on since today .*, A. Roth"))
    expect(page.locator("#counts")).to_contain_text("refused1")
    refused = page.locator("#refused")
    expect(refused.locator("summary")).to_have_text("1 file of the watched folder cannot be judged")
    refused.locator("summary").click()
    expect(refused.locator("li")).to_have_count(1)
    expect(refused.locator("li")).to_contain_text("note.png")
    photograph(page, album, "judge-watch")
    (folder / "in").rename(folder / "away")
    expect(page.locator("#watch-since")).to_have_text("The folder cannot be reached: nothing arrives until it is back.")
    photograph(page, album, "judge-watch-away")
    (folder / "away").rename(folder / "in")
    expect(page.locator("#watch-since")).to_have_text(re.compile("on since today .*, A. Roth"))
    context.close()
