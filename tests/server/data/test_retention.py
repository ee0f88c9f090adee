"""Which images a web station keeps: room is made, images are forgotten, kills leave nothing broken, decisions stay."""

from __future__ import annotations

import csv
import fcntl
import hashlib
import io
import multiprocessing
import os
import signal
import time
import zipfile

import pytest
from starlette.testclient import TestClient

from sparcal.files.json_record import write_record
from sparcal.server.data import drafts, jobs, retention, scores
from sparcal.server.data.database import Database
from sparcal.server.data.store import Store, Stored
from sparcal.server.refusals import ConflictError, TooLargeError
from sparcal.server.settings import Limits, WebSettings
from sparcal.server.web.app import create_app
from tests.support.unstaffed import SHA, add_image

PNG = b"\x89PNG\r\n\x1a\n"
MEASURED = {"score": 3.0, "threshold": 2.0, "verdict": "fail"}


def content(number, size=100):
    return PNG + number.to_bytes(4, "big") + bytes(size - len(PNG) - 4)


class Station:
    """A web station without a worker; what the worker would do is done by hand."""

    def __init__(self, folder, **limits):
        write_record(folder / "station.json", "station", {"created": "2026-01-01T00:00:00.000+00:00"})
        app = create_app(WebSettings(folder, limits=Limits(**limits)), worker=False)
        self.folder = folder / "web"
        self.database, self.store = app.state.context.database, app.state.context.store
        self.client = TestClient(app, base_url="http://127.0.0.1:8765", raise_server_exceptions=False)
        self.client.headers["X-Sparcal-CSRF"] = self.client.get("/api/session").json()["csrf"]

    def send(self, number, *, path="/inspection/images", size=100):
        return self.client.post(f"/api{path}", params={"name": f"{number}.png"}, content=content(number, size))

    def judged(self, number, *, found=None, lot="", size=100):
        """An image that was sent, read and scored, and perhaps decided on; its hash."""
        sha = self.send(number, size=size).json()["sha"]
        with self.database.write() as connection:
            connection.execute("UPDATE images SET state = 'ready', width = 4, height = 3 WHERE sha = ?", (sha,))
            connection.execute("DELETE FROM arrivals WHERE sha = ?", (sha,))
            scores.add(connection, sha, lot, MEASURED)
            row = connection.execute("SELECT id FROM scores WHERE sha = ? AND lot = ?", (sha, lot)).fetchone()
            if found:
                scores.review(connection, row["id"], found, "A. Roth")
        for picture in (self.store.picture(sha, "thumb"), self.store.heat(sha, "0" * 64)):
            picture.parent.mkdir(parents=True, exist_ok=True)
            picture.write_bytes(b"picture")
        return sha

    def discard(self, draft):
        with self.database.write() as connection:
            drafts.close_draft(connection, draft, "discard")

    def here(self):
        return {path.name for path in (self.folder / "images").rglob("*") if path.is_file()}

    def states(self):
        with self.database.read() as connection:
            return {row["sha"]: row["state"] for row in connection.execute("SELECT sha, state FROM images")}


@pytest.fixture
def full(tmp_path):
    """A station that holds four images."""
    return Station(tmp_path / "line-3", images=4)


def assert_whole(database, store):
    """Every image that is here has its file, with its content, and no file belongs to none."""
    with database.read() as connection:
        here = {row["sha"] for row in connection.execute("SELECT sha FROM images WHERE state IN ('new', 'ready')")}
        assert connection.execute("SELECT count(*) FROM images WHERE state = 'leaving'").fetchone()[0] == 0
    assert store.held() == here
    for sha in here:
        assert hashlib.sha256(store.image(sha).read_bytes()).hexdigest() == sha


def test_the_oldest_judged_images_make_room_and_leave_their_scores_and_decisions(full):
    shas = [full.judged(0, found="defective"), full.judged(1), full.judged(2), full.judged(3)]
    assert full.send(4).status_code == 201
    assert full.states()[shas[0]] == "removed"
    assert full.here() == {*shas[1:], hashlib.sha256(content(4)).hexdigest()}
    assert not list((full.folder / "pictures").rglob(f"{shas[0]}*"))
    assert list((full.folder / "pictures").rglob(f"{shas[1]}*"))
    assert full.send(5).status_code == 201
    rows = {row["sha"]: row for row in full.client.get("/api/scores").json()["scores"]}
    assert [rows[sha]["removed"] for sha in shas] == [True, True, False, False]
    assert (rows[shas[0]]["score"], rows[shas[0]]["finding"], rows[shas[0]]["operator"]) == (
        3.0,
        "defective",
        "A. Roth",
    )
    lines = list(csv.DictReader(io.StringIO(full.client.get("/api/scores.csv").text)))
    assert {line["sha256"] for line in lines} == set(shas)
    for what in ("thumb", "native", "heat"):
        answer = full.client.get(f"/api/images/{shas[0]}/{what}")
        assert answer.status_code == 404
        assert answer.json()["error"] == "This image was removed; its scores and decisions are kept."


def test_bytes_are_counted_too(tmp_path):
    station = Station(tmp_path / "line-3", store_bytes=1000)
    first, second = station.judged(0, size=400), station.judged(1, size=400)
    assert station.send(2, size=500).status_code == 201
    assert [station.states()[sha] for sha in (first, second)] == ["removed", "ready"]
    assert station.send(3, size=1001).status_code == 413
    assert station.states()[second] == "ready", "nobody has to leave for an image that does not fit anyway"
    assert_no_leftovers(station, 2)


def assert_no_leftovers(station, images):
    assert len(station.here()) == images
    assert not list((station.folder / "incoming").iterdir())


def test_what_is_still_needed_stays_and_the_sentence_says_what_to_do(full):
    draft = full.client.post("/api/drafts", json={"name": "L1"}).json()["id"]
    kept = [full.judged(0, found="good"), full.judged(1)]
    assert full.send(1, path=f"/drafts/{draft}/images").status_code == 201
    assert full.send(2).status_code == 201, "it waits to be scored"
    kept.append(full.judged(3))
    with full.database.write() as connection:  # the calibration image of a lot that somebody discarded since
        old = connection.execute(
            "INSERT INTO drafts (name, state, created, result) VALUES ('L0', 'discarded', '', '{}')"
        )
        connection.execute("INSERT INTO draft_images VALUES (?, ?, 1, NULL)", (old.lastrowid, kept[2]))
    answer = full.send(4)
    assert answer.status_code == 413
    assert answer.json()["error"] == (
        "A web station keeps at most 4 images and 50 GB, and all that are here are still needed (they wait, belong to "
        "a draft or a lot, or were overruled): finish or discard drafts, or download overruled images and then forget "
        "them on the Judge page."
    )
    assert "removed" not in full.states().values()
    assert_no_leftovers(full, 4)
    full.discard(draft)
    assert full.send(4).status_code == 201, "discarding the draft, as the sentence says, helps"
    assert full.states()[kept[1]] == "removed"
    assert full.send(5).status_code == 413
    forgot = full.client.post("/api/inspection/forget", json={"lot": "", "operator": "A. Roth", "overruled": True})
    assert forgot.json() == {"images": 1}
    assert full.send(5).status_code == 201, "and so does forgetting what was overruled"


def test_unmarked_images_of_decided_drafts_and_parts_that_are_being_added(full):
    shas = [full.judged(number, found="defective") for number in range(4)]
    with full.database.write() as connection:
        old = connection.execute(
            "INSERT INTO drafts (name, state, created, result) VALUES ('L0', 'accepted', '', '{}')"
        )
        connection.execute("INSERT INTO draft_images VALUES (?, ?, 0, NULL)", (old.lastrowid, shas[0]))
        job = jobs.enqueue(connection, "fit", {"images": shas[1:], "operator": "A. Roth"})
        assert [row["sha"] for row in retention.may_go(connection)] == [shas[0]]
        jobs.cancel(connection, job)
        assert [row["sha"] for row in retention.may_go(connection)] == shas
        jobs.enqueue(connection, "read", {})
        assert len(retention.may_go(connection)) == 4
    found = full.client.get(f"/api/drafts/{old.lastrowid}").json()
    assert found["images"][0]["state"] == "ready"
    full.send(4)
    found = full.client.get(f"/api/drafts/{old.lastrowid}").json()
    assert found["images"][0]["state"] == "removed"


def test_a_word_that_was_taken_back_protects_no_longer(full):
    sha = full.judged(0, found="good")
    with full.database.write() as connection:
        assert retention.may_go(connection) == []
        scores.review(connection, 1, "defective", "B. Kern")
        assert [row["sha"] for row in retention.may_go(connection)] == [sha]


def test_an_operator_forgets_what_a_lot_has_judged(full):
    shas = [full.judged(0, lot="L1"), full.judged(1, lot="L1", found="good"), full.judged(2, lot="L2")]
    before = full.client.get("/api/inspection/store", params={"lot": "L1"}).json()
    assert before == {
        "lot": "L1",
        "images": 3,
        "bytes": 300,
        "most_images": 4,
        "most_bytes": 50 * 2**30,
        "forgettable": 1,
        "forgettable_overruled": 1,
    }
    assert full.client.post("/api/inspection/forget", json={"lot": "L1"}).status_code == 422, "somebody answers for it"
    assert full.client.post("/api/inspection/forget", json={"lot": "L1", "operator": "B. Kern"}).json() == {"images": 1}
    assert full.here() == set(shas[1:])
    again = {"lot": "L1", "operator": "B. Kern", "overruled": True}
    assert full.client.post("/api/inspection/forget", json=again).json() == {"images": 1}
    assert full.here() == {shas[2]}
    said = full.client.get("/api/audit").json()["entries"]
    assert [(entry["operator"], entry["sentence"]) for entry in said][:2] == [
        ("B. Kern", "forgot 1 image that lot L1 had judged")
    ] * 2
    assert len(full.client.get("/api/scores", params={"lot": "L1"}).json()["scores"]) == 2


def test_a_removed_image_cannot_be_judged_or_offered_but_is_listed(full):
    sha = full.judged(0, found="good")
    full.client.post("/api/inspection/forget", json={"lot": "", "operator": "B. Kern", "overruled": True})
    refused = full.client.post("/api/scores/1/decision", json={"finding": "defective", "operator": "A. Roth"})
    assert (refused.status_code, "0.png was removed, so nobody can look at it" in refused.text) == (409, True)
    offered = full.client.post("/api/drafts/from-confirmed", json={"name": "L9", "lot": ""})
    assert (offered.status_code, "or its picture is gone" in offered.text) == (409, True)
    with zipfile.ZipFile(io.BytesIO(full.client.get("/api/scores/overruled.zip").content)) as archive:
        assert archive.namelist() == ["scores.csv"]
        assert sha in archive.read("scores.csv").decode()


def test_an_image_that_is_sent_again_is_here_again(full):
    sha = full.judged(0, found="defective")
    full.client.post("/api/inspection/forget", json={"lot": "", "operator": "B. Kern"})
    assert full.states()[sha] == "removed"
    assert full.send(0).status_code == 201
    assert (full.states()[sha], full.here()) == ("new", {sha})
    assert full.client.get("/api/scores").json()["waiting"] == 1, "its pictures are to be made again"
    with full.database.write() as connection:  # what the worker does, under a threshold of today
        scores.add(connection, sha, "", {"score": 3.0, "threshold": 9.0, "verdict": "pass"})
    assert full.client.get("/api/scores/1").json()["verdict"] == "fail", "the score of that day stays"
    assert full.send(0).status_code == 201
    assert full.client.get("/api/scores").json()["waiting"] == 0, "it is here and has its score"
    assert full.client.get("/api/scores/1").json()["finding"] == "defective"


def test_an_image_that_is_sent_while_it_leaves_keeps_its_new_file(full):
    sha = full.judged(0)
    with full.database.write() as connection:
        assert retention.forget_images(connection, "", "B. Kern", overruled=False) == 1
    assert full.states()[sha] == "leaving"  # as if killed before any file was removed
    assert full.send(0).status_code == 201
    retention.remove_files(full.database, full.store)
    assert_whole(full.database, full.store)
    assert full.here() == {sha}


def test_files_that_cannot_be_removed_now_are_removed_later(full, monkeypatch):
    sha = full.judged(0)

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(Store, "discard", refuse)
        answer = full.client.post("/api/inspection/forget", json={"lot": "", "operator": "B. Kern"})
        assert answer.json() == {"images": 1}
    assert (full.states()[sha], full.here()) == ("leaving", {sha})
    assert full.client.get(f"/api/images/{sha}/thumb").status_code == 404
    retention.sweep(full.database, full.store)
    assert (full.states()[sha], full.here()) == ("removed", set())


def test_starting_clears_what_the_dead_left(full):
    kept = full.judged(0)
    (full.folder / "named/7").mkdir(parents=True)
    os.link(full.store.image(kept), full.folder / "named/7/part.png")
    stray = "ab" * 32
    for path in (full.store.image(stray), full.store.picture(stray, "thumb")):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"nobody knows me")
    unfinished = full.store.picture(kept, "thumb").with_name(".half.webp.123")
    unfinished.write_bytes(b"half")
    retention.sweep(full.database, full.store)
    assert full.here() == {kept}
    assert not (full.folder / "named").exists()
    assert not unfinished.exists()
    assert_whole(full.database, full.store)


def test_starting_removes_dead_uploads_and_leaves_living_ones(full):
    incoming = full.folder / "incoming"
    full.send(0)
    (incoming / "dead").write_bytes(b"half an image")
    (incoming / "alive").write_bytes(b"half an image")
    with (incoming / "alive").open("ab") as writing:
        fcntl.flock(writing, fcntl.LOCK_EX)
        with full.client:  # the server starts
            pass
        assert [path.name for path in incoming.iterdir()] == ["alive"]


def test_a_refused_draft_upload_leaves_nothing(full):
    draft = full.client.post("/api/drafts", json={"name": "L1"}).json()["id"]
    full.discard(draft)
    stored = full.folder / "incoming/late"
    stored.parent.mkdir(parents=True, exist_ok=True)
    stored.write_bytes(content(1))
    late = Stored(hashlib.sha256(content(1)).hexdigest(), "late.png", 100, "png", stored)
    with pytest.raises(ConflictError), retention.arrival(full.database, full.store, late) as connection:
        drafts.require_room(connection, draft, late.sha, limit=9)
    assert_no_leftovers(full, 0)


def test_a_full_station_makes_room_for_a_hundredth_at_once(tmp_path):
    station = Station(tmp_path / "line-3", images=200)
    for number in range(200):
        station.judged(number)
    station.send(1000)
    assert list(station.states().values()).count("removed") == 3, "one that must, and two that spare the next ones"


def fill_for_ever(folder, started):
    """Let images in, read and judge them, as fast as it goes."""
    database, store = Database(folder / "station.sqlite3"), Store(folder, Limits(images=5))
    (folder / "incoming").mkdir(exist_ok=True)
    number = started.value * 1000
    while True:
        number += 1
        data = content(number % 40 + 1)  # some come back
        path = folder / "incoming" / str(number)
        path.write_bytes(data)
        stored = Stored(hashlib.sha256(data).hexdigest(), f"{number}.png", len(data), "png", path)
        with retention.arrival(database, store, stored) as connection:
            retention.admit(connection, store, stored)
        with database.write() as connection:
            connection.execute("UPDATE images SET state = 'ready' WHERE state = 'new'")
            scores.add(connection, stored.sha, "", MEASURED)
            row = connection.execute("SELECT id FROM scores WHERE sha = ?", (stored.sha,)).fetchone()
            scores.review(connection, row["id"], "defective", "A. Roth")
        started.value += 1


def test_a_kill_while_room_is_made_breaks_nothing(tmp_path, record_property):
    folder = tmp_path / "web"
    database, store = Database.at(folder), Store(folder, Limits(images=5))
    context = multiprocessing.get_context("spawn")
    decided = 0
    record_property("tried", 4)
    for attempt in range(4):
        done = context.Value("q", 0)
        process = context.Process(target=fill_for_ever, args=(folder, done))
        process.start()
        while done.value < 12 + 5 * attempt:
            time.sleep(0.003)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        decided += done.value
        retention.sweep(database, store)
        with database.write() as connection:  # what the worker does next
            connection.execute("UPDATE images SET state = 'ready' WHERE state = 'new'")
            assert connection.execute("SELECT count(*) FROM decisions").fetchone()[0] >= decided
            decided = connection.execute("SELECT count(*) FROM decisions").fetchone()[0]
            assert retention.usage(connection)["images"] <= 5
        assert_whole(database, store)


def test_no_room_at_all_is_said_by_the_function_too(tmp_path):
    database, store = Database.at(tmp_path / "web"), Store(tmp_path / "web", Limits(images=1))
    with database.write() as connection:
        add_image(connection)
        scores.arrive(connection, SHA, "")  # it waits for its score, so it cannot make room
    path = tmp_path / "upload"
    path.write_bytes(content(1))
    stored = Stored("cd" * 32, "a.png", 100, "png", path)
    with (
        pytest.raises(TooLargeError, match="at most 1 images"),
        retention.arrival(database, store, stored) as connection,
    ):
        retention.admit(connection, store, stored)
    assert not path.exists()
