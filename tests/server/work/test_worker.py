"""The worker: how a job ends, and how one is stopped."""

from __future__ import annotations

import pytest

from sparcal.errors import DataError
from sparcal.server.data import jobs
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
