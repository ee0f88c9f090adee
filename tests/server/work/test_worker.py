"""The worker: how a job ends, and how one is stopped."""

from __future__ import annotations

import sqlite3

import pytest

from sparcal.errors import DataError
from sparcal.server.data import jobs
from sparcal.server.work import worker
from sparcal.server.work.reporting import CancelledError
from sparcal.server.work.worker import Watchdog, work
from tests.server.data.test_jobs import enqueue, state


def test_a_job_tells_how_it_ended(database):
    dog = Watchdog(database)
    done, failed, odd = enqueue(database, "read"), enqueue(database, "check", a=1), enqueue(database, "score", lot="")

    def run(job, report):
        if job.kind == "check":
            raise DataError("The image /srv/line/secret/a.png must be readable, got nothing.")
        if job.kind == "score":
            raise RuntimeError("at /srv/line: a detail that nobody outside may read")
        report(1, 1)
        return "All read."

    while work(database, run, watchdog=dog):
        pass
    assert (state(database, done)["state"], state(database, done)["message"]) == ("done", "All read.")
    assert state(database, failed)["message"] == "The image a.png must be readable, got nothing."
    assert state(database, odd)["message"] == "Something unexpected happened: the server's log says what."


def test_the_watchdog_outlives_a_database_that_cannot_be_read_for_a_while(database, monkeypatch):
    class Ended(BaseException):
        pass

    def leave(code):
        raise Ended(code)

    job, failures, read = enqueue(database, "read"), [1, 1], database.read

    def unsteady():
        if failures:
            failures.pop()
            raise sqlite3.OperationalError("disk I/O error")
        return read()

    with database.write() as connection:
        connection.execute("UPDATE jobs SET state = 'running', cancel = 1 WHERE id = ?", (job,))
    monkeypatch.setattr(database, "read", unsteady)
    monkeypatch.setattr(worker.time, "sleep", lambda _seconds: None)
    monkeypatch.setattr(worker, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(worker.os, "_exit", leave)
    with pytest.raises(Ended, match="4"):
        Watchdog(database, current=job).run()
    assert not failures


def test_cancel_takes_effect_before_and_while_running(database):
    waiting, running = enqueue(database, "score", lot="b"), enqueue(database, "read")
    with database.write() as connection:
        assert jobs.cancel(connection, waiting)
    assert state(database, waiting)["state"] == "cancelled"

    def run(job, report):
        with database.write() as connection:
            assert jobs.cancel(connection, job.id)
        with pytest.raises(CancelledError):
            report(3, 9)
        report(9, 9)

    assert work(database, run, watchdog=Watchdog(database))
    row = state(database, running)
    assert (row["state"], row["done"], row["message"]) == ("cancelled", 9, "Stopped by the operator.")
    with database.write() as connection:
        assert not jobs.cancel(connection, running)
        assert jobs.retry(connection, running)
        assert not jobs.retry(connection, running)
    assert state(database, running)["state"] == "queued"


@pytest.mark.parametrize("where", ["in the job", "at its end"])
def test_on_a_full_disk_a_job_waits_and_goes_on_when_there_is_room(database, monkeypatch, where):
    job = enqueue(database, "score", lot="L1")
    rooms = iter([False, False, True])
    monkeypatch.setattr(worker, "has_room", lambda _: next(rooms))
    monkeypatch.setattr(worker, "_ROOM_S", 0.01)
    tries = []

    def full_once(name):
        real = getattr(jobs, name)

        def write(*arguments, **named):
            tries.append(name)
            if len(tries) == 1:
                with database.write() as connection:
                    connection.execute(f"PRAGMA max_page_count={connection.execute('PRAGMA page_count').fetchone()[0]}")
                    try:
                        connection.execute("INSERT INTO ended_sessions VALUES (?, '')", ("x" * 10**6,))
                    finally:
                        connection.execute("PRAGMA max_page_count=1073741823")
            return real(*arguments, **named)

        monkeypatch.setattr(jobs, name, write)

    def run(*_):
        if where == "in the job":
            raise OSError(28, "No space left on device")
        return "All judged."

    full_once("step_back" if where == "in the job" else "finish")
    assert work(database, run, watchdog=Watchdog(database))
    row = state(database, job)
    assert len(tries) == 2
    assert (row["state"], row["attempts"]) == (("queued", 0) if where == "in the job" else ("done", 1))
    assert next(rooms, None) is None, "it held still until there was room"
