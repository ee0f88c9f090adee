"""The queue: order, cancelling, and workers that die."""

from __future__ import annotations

from sparcal.server.data import jobs


def enqueue(database, kind, **subject):
    with database.write() as connection:
        return jobs.enqueue(connection, kind, subject)


def state(database, job):
    with database.read() as connection:
        return connection.execute("SELECT * FROM jobs WHERE id = ?", (job,)).fetchone()


def test_short_work_goes_first_and_the_same_work_waits_once(database):
    slow = enqueue(database, "score", lot="L1")
    quick = enqueue(database, "read")
    assert enqueue(database, "score", lot="L1") == slow
    assert jobs.claim(database).id == quick
    assert jobs.claim(database).id == slow
    assert jobs.claim(database) is None
    assert enqueue(database, "score", lot="L1") != slow, (
        "what runs already has read its images; new ones need a new job"
    )


def test_a_job_whose_worker_died_is_tried_once_more_and_then_left(database):
    job = enqueue(database, "read")
    jobs.claim(database)
    jobs.recover(database)
    assert state(database, job)["state"] == "queued"
    jobs.claim(database)
    jobs.recover(database)
    assert state(database, job)["state"] == "interrupted"
    with database.write() as connection:
        assert jobs.retry(connection, job)


def test_a_cancelled_job_whose_worker_died_stays_cancelled(database):
    job = enqueue(database, "read")
    jobs.claim(database)
    with database.write() as connection:
        jobs.cancel(connection, job)
    jobs.recover(database)
    assert state(database, job)["state"] == "cancelled"
