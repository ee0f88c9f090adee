"""Judging: an image that arrives is decoded once and hashed once; a job that gives way counts on to the same total."""

from __future__ import annotations

import hashlib

import pytest

from sparcal.imaging import decode
from sparcal.server.data import jobs, retention, scores
from sparcal.server.data.jobs import Job
from sparcal.server.data.store import Store, Stored
from sparcal.server.settings import Limits
from sparcal.server.work import reading
from sparcal.server.work.handlers import Tasks
from sparcal.server.work.reporting import Reporter
from sparcal.server.work.worker import Watchdog, work
from tests.support.served import build_station


class Silent:
    """A job's reporter that nobody listens to."""

    def __call__(self, done, total):
        assert done <= total

    def step_aside(self):
        pass


@pytest.fixture(scope="module")
def station(tmp_path_factory):
    folder = tmp_path_factory.mktemp("judging") / "line-3"
    return build_station(folder, train=4, good=3, bad=1), folder


def arrive(database, store, name, content):
    path = store.folder / "upload"
    path.write_bytes(content)
    sha = hashlib.sha256(content).hexdigest()
    with retention.arrival(database, store, Stored(sha, name, len(content), "png", path)) as connection:
        retention.admit(connection, store, Stored(sha, name, len(content), "png", path))
        scores.arrive(connection, sha, "")
    return sha


def test_an_image_is_decoded_once_and_never_hashed_again(station, database, monkeypatch):
    parts, folder = station
    store = Store(database.path.parent, Limits())
    shas = [arrive(database, store, *part) for part in parts.good]
    tasks = Tasks(database, store, folder, None)
    tasks.noticing.look(tasks.loaded.lot(""))  # the monitor has read the station's own parts
    decoded, hashed = [], []
    once = decode._decode

    def counted(stream, name):
        decoded.append(name)
        return once(stream, name)

    with monkeypatch.context() as patched:
        patched.setattr(decode, "_decode", counted)
        patched.setattr("sparcal.imaging.encode.content_hash", hashed.append)
        assert tasks.run(Job(1, "score", {"lot": ""}, 1), Silent()) == "3 images judged."
    assert (len(decoded), hashed) == (3, [])
    with database.read() as connection:
        rows = {row["sha"]: row for row in scores.read_scores(connection, "")}
    judged = {one.sha256: one for one in tasks.loaded.station.own().score([content for _, content in parts.good])}
    assert {sha: row["score"] for sha, row in rows.items()} == {sha: judged[sha].score for sha in shas}
    assert all(store.picture(sha, "thumb").exists() for sha in shas)
    assert reading.Reading(database, store).usable(shas[0])


@pytest.mark.parametrize("end", ["gives way", "is killed"])
def test_a_job_that_is_taken_up_again_counts_on_to_the_same_total(station, database, monkeypatch, end):
    parts, folder = station
    store = Store(database.path.parent, Limits())
    for part in parts.good:
        arrive(database, store, *part)
    with database.write() as connection:
        job = jobs.enqueue(connection, "score", {"lot": ""})
    tasks, told = Tasks(database, store, folder, None), []
    note, keep = jobs.note_progress, scores.add

    def noted(database, number, *, done, total):
        if number == job:
            told.append((done, total))
        return note(database, number, done=done, total=total)

    def keep_and_disturb(connection, *row):
        keep(connection, *row)
        if len(told) == 2:
            monkeypatch.setattr("sparcal.server.data.scores.add", keep)
            if end == "is killed":
                raise KeyboardInterrupt  # nobody tells the queue
            jobs.enqueue(connection, "read", {})

    monkeypatch.setattr("sparcal.server.work.reporting._REPORT_S", 0.0)
    monkeypatch.setattr(jobs, "note_progress", noted)
    monkeypatch.setattr("sparcal.server.data.scores.add", keep_and_disturb)
    if end == "is killed":
        with pytest.raises(KeyboardInterrupt):
            tasks.run(jobs.claim(database), Reporter(database, Job(job, "score", {"lot": ""}, 1)))
        jobs.recover(database)
    while work(database, tasks.run, watchdog=Watchdog(database)):
        pass
    assert {total for _, total in told} == {3}
    done = [done for done, _ in told]
    assert (done, done[-1]) == (sorted(done), 3)
    with database.read() as connection:
        row = connection.execute("SELECT * FROM jobs WHERE id = ?", (job,)).fetchone()
    assert (row["state"], row["message"]) == ("done", "3 images judged.")
