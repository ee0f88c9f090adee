"""The watched folder: files are taken once they are whole, once per content, also after a restart, while it is on."""

from __future__ import annotations

import os

import pytest

from sparcal.server.data import jobs, retention, scores
from sparcal.server.data.database import Database
from sparcal.server.data.store import Store
from sparcal.server.data.watch_switch import WatchSwitch, read_switch, refused_files, turn_watching
from sparcal.server.refusals import TooLargeError
from sparcal.server.settings import Limits
from sparcal.server.work import watching

PNG = b"\x89PNG\r\n\x1a\n"


class Watched:
    """A folder and the worker's part of a web station, without processes."""

    def __init__(self, root, **limits):
        self.root, self.limits = root, Limits(**limits)
        self.folder = root / "in"
        self.folder.mkdir()
        self.restart()

    def restart(self):
        self.database = Database.at(self.root / "web")
        self.store = Store(self.root / "web", self.limits)

    def write(self, name, content):
        (self.folder / name).write_bytes(PNG + content)

    def look(self, times=1):
        for _ in range(times):
            watching.look(self.database, self.folder)

    def take(self, lot="L1"):
        """What the job does, if one was queued; its sentence."""
        with self.database.write() as connection:
            if connection.execute("DELETE FROM jobs WHERE kind = 'collect'").rowcount == 0:
                return None
        return watching.take(self.database, self.store, lot, lambda *_: None)

    def waiting(self, lot="L1"):
        """Names of what is to be judged."""
        with self.database.read() as connection:
            rows = {row["sha"]: row["name"] for row in connection.execute("SELECT * FROM images")}
            return [rows[sha] for sha in scores.waiting(connection, lot)]

    def turn(self, *, on, operator="A. Roth"):
        with self.database.write() as connection:
            turn_watching(connection, on=on, operator=operator)


@pytest.fixture
def watched(tmp_path):
    return Watched(tmp_path)


def test_a_file_is_taken_when_two_looks_find_it_the_same(watched):
    watched.write("a.png", b"1")
    watched.look()
    assert watched.take() is None
    watched.write("a.png", b"12")  # it still grows
    watched.look()
    assert watched.take() is None
    watched.look()
    assert watched.take() == "1 taken."
    assert watched.waiting() == ["a.png"]
    watched.look(3)
    with watched.database.read() as connection:
        assert [row["kind"] for row in jobs.recent(connection)] == ["score"], "nothing new, nothing asked for"


def test_a_file_that_changes_after_the_look_is_left_for_the_next(watched):
    watched.write("a.png", b"1")
    watched.look(2)
    watched.write("a.png", b"12")
    assert watched.take() == "0 taken."
    assert watched.waiting() == []
    assert not list((watched.root / "web/incoming").iterdir())
    watched.look(2)
    assert watched.take() == "1 taken."


def test_the_same_size_at_another_time_is_a_change(watched):
    watched.write("a.png", b"1")
    watched.look()
    os.utime(watched.folder / "a.png", ns=(0, 1))
    watched.look()
    assert watched.take() is None


def test_each_content_is_judged_once_whatever_it_is_called_and_whichever_lot_is_active(watched):
    watched.write("a.png", b"1")
    watched.look(2)
    watched.take(lot="L1")
    watched.write("b.png", b"1")
    os.utime(watched.folder / "a.png", ns=(0, 1))
    watched.look(2)
    assert watched.take(lot="L2") == "0 taken, 2 known already."
    assert watched.waiting("L2") == []


def test_a_new_content_of_an_old_name_is_judged_and_one_that_came_back_is_not(watched):
    watched.write("a.png", b"1")
    watched.look(2)
    watched.take()
    (watched.folder / "a.png").unlink()
    watched.look()
    with watched.database.read() as connection:
        assert connection.execute("SELECT count(*) FROM watched").fetchone()[0] == 0, "what left is not remembered"
    watched.write("a.png", b"2")
    watched.write("old.png", b"1")
    watched.look(2)
    assert watched.take() == "1 taken, 1 known already."


def test_a_restart_neither_takes_twice_nor_forgets(watched):
    watched.write("a.png", b"1")
    watched.look(2)
    watched.take()
    watched.write("b.png", b"2")
    watched.look()
    watched.restart()
    watched.look()
    assert watched.take() == "1 taken."
    assert watched.waiting() == ["a.png", "b.png"]
    watched.restart()
    watched.look(3)
    with watched.database.read() as connection:
        assert jobs.open_of(connection, "collect", {"watch": True}) is None


def test_what_is_no_image_is_refused_once(watched):
    (watched.folder / "note.png").write_bytes(b"no image at all")
    watched.write("a.png", b"1")
    (watched.folder / os.fsdecode(b"caf\xe9.png")).write_bytes(PNG + b"3")
    watched.look(2)
    assert watched.take() == "2 taken, 1 refused: note.png."
    with watched.database.read() as connection:
        assert refused_files(connection) == [
            {
                "name": "note.png",
                "problem": "note.png must be a PNG, JPEG, BMP, TIFF or WebP image, got something else.",
            }
        ]
    watched.look(2)
    assert jobs.claim(watched.database).kind == "score"


def test_a_folder_that_is_away_for_a_while_is_remembered(watched):
    watched.write("a.png", b"1")
    watched.look(2)
    watched.take()
    watched.folder.rename(watched.root / "away")
    watched.look()
    (watched.root / "away").rename(watched.folder)
    watched.look(2)
    with watched.database.read() as connection:
        assert [row["kind"] for row in jobs.recent(connection)] == ["score"]


def test_a_full_station_fails_the_job_and_what_waits_is_taken_later(tmp_path):
    watched = Watched(tmp_path, images=1)
    watched.write("a.png", b"1")
    watched.write("b.png", b"2")
    watched.look(2)
    with pytest.raises(TooLargeError, match="all that are here are still needed"):
        watched.take()
    assert len(watched.waiting()) == 1
    with watched.database.write() as connection:  # the worker judges what it has
        sha = scores.waiting(connection, "L1")[0]
        connection.execute("UPDATE images SET state = 'ready'")
        scores.add(connection, sha, "L1", {"score": 1.0, "threshold": 2.0, "verdict": "pass"})
        jobs.enqueue(connection, "collect", {"watch": True})
    assert watched.take() == "1 taken."
    with watched.database.read() as connection:
        assert retention.usage(connection)["images"] == 1


def test_a_kill_between_copy_and_commit_takes_the_file_again(watched, monkeypatch):
    watched.write("a.png", b"1")
    watched.look(2)

    def die(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(scores, "arrive", die)
        with pytest.raises(KeyboardInterrupt):
            watched.take()
    watched.restart()
    retention.sweep(watched.database, watched.store)
    assert watched.waiting() == []
    with watched.database.write() as connection:
        jobs.enqueue(connection, "collect", {"watch": True})  # as jobs.recover does
    assert watched.take() == "1 taken."


def test_it_is_on_until_somebody_switches_it_off_and_every_switch_is_kept(watched):
    with watched.database.read() as connection:
        assert read_switch(connection) == WatchSwitch(True, None, None)
    watched.write("a.png", b"1")
    watched.look(2)
    watched.turn(on=False)
    watched.turn(on=False, operator="somebody who was late")
    assert watched.take() == "The watched folder is no longer judged by itself."
    watched.write("b.png", b"2")
    watched.look(3)
    assert watched.take() is None
    watched.turn(on=True, operator="B. Kern")
    assert watched.take() == "1 taken.", "what had settled before it was switched off"
    watched.look(2)
    with watched.database.write() as connection:
        said = connection.execute("SELECT operator, detail FROM decisions WHERE kind = 'watch'").fetchall()
        assert (read_switch(connection).on, read_switch(connection).operator) == (True, "B. Kern")
    assert watched.take() == "1 taken."
    assert [tuple(row) for row in said] == [("A. Roth", '{"on": false}'), ("B. Kern", '{"on": true}')]
