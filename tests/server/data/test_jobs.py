"""The queue and the database under it: order, cancelling, deaths, and decisions that stay."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import time

import pytest

from sparcal.errors import ArtifactError, DataError
from sparcal.server.data import drafts, jobs, scores
from sparcal.server.data.database import Database, now
from sparcal.server.data.drafts import ConflictError, NotFoundError
from sparcal.server.work.worker import CancelledError, Watchdog, work

SHA = "ab" * 32


@pytest.fixture
def database(tmp_path):
    return Database.at(tmp_path / "web")


def enqueue(database, kind, **subject):
    with database.write() as connection:
        return jobs.enqueue(connection, kind, subject)


def state(database, job):
    with database.read() as connection:
        return connection.execute("SELECT * FROM jobs WHERE id = ?", (job,)).fetchone()


def add_image(connection, sha=SHA):
    connection.execute("INSERT INTO images VALUES (?, 'a.png', 10, 'png', 'ready', 4, 3, NULL, ?)", (sha, now()))


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


def test_a_draft_is_open_again_when_its_calibration_ends_badly(database):
    with database.write() as connection:
        draft = drafts.create(connection, "L1")
        for number in range(2):
            sha = f"{number:064x}"
            add_image(connection, sha)
            drafts.add_image(connection, draft, sha, limit=9)
        shas = [f"{number:064x}" for number in range(2)]
        drafts.mark(connection, draft, shas)
        with pytest.raises(ConflictError, match="Other images were marked meanwhile"):
            drafts.start(connection, draft, shas[:1], {"operator": "M. Weber"})
        job = drafts.start(connection, draft, shas, {"operator": "M. Weber"})
        with pytest.raises(ConflictError, match="is calibrating, so this cannot be done"):
            drafts.start(connection, draft, shas, {"operator": "second browser"})
        jobs.cancel(connection, job)
        assert drafts.get(connection, draft)["state"] == "open"
        jobs.retry(connection, job)
        assert drafts.get(connection, draft)["state"] == "calibrating"


def test_marks_outside_2_to_8_or_of_strangers_are_refused(database):
    with database.write() as connection:
        draft = drafts.create(connection, "L1")
        for number in range(9):
            add_image(connection, f"{number:064x}")
            drafts.add_image(connection, draft, f"{number:064x}", limit=9)
        with pytest.raises(ConflictError, match="takes 2 to 8 good images, got 9: unmark some"):
            drafts.mark(connection, draft, [f"{number:064x}" for number in range(9)])
        with pytest.raises(NotFoundError, match="not a readable one of this draft"):
            drafts.mark(connection, draft, [SHA])
        with pytest.raises(ConflictError, match="takes 2 to 8 verified good images, got 0"):
            drafts.start(connection, draft, [], {})
        add_image(connection)
        with pytest.raises(ConflictError, match="holds at most 9 images"):
            drafts.add_image(connection, draft, SHA, limit=9)
        with pytest.raises(ConflictError, match="A draft for lot 'L1' is open already"):
            drafts.create(connection, "L1")


def test_decisions_are_kept_whatever_somebody_tries(database):
    with database.write() as connection:
        add_image(connection)
        scores.add(connection, SHA, "L1", {"score": 3.0, "threshold": 2.0, "verdict": "fail"})
        scores.judge(connection, 1, "overrule", "A. Roth")
        scores.judge(connection, 1, "confirm", "B. Kern")
    for statement in ("UPDATE decisions SET operator = 'x'", "DELETE FROM decisions"):
        with pytest.raises(sqlite3.IntegrityError, match="decisions are kept"), database.write() as connection:
            connection.execute(statement)
    with database.read() as connection:
        row = scores.get(connection, 1)
        assert (row["decision"], row["operator"], scores.final_verdict(row)) == ("confirm", "B. Kern", "fail")
        assert connection.execute("SELECT count(*) FROM decisions").fetchone()[0] == 2


def test_the_csv_disarms_formulas(database):
    with database.write() as connection:
        add_image(connection)
        connection.execute("UPDATE images SET name = '=cmd()'")
        scores.add(connection, SHA, "-L1", {"score": 3.0, "threshold": 2.0, "verdict": "fail"})
        scores.judge(connection, 1, "overrule", "@sum")
        lines = scores.as_csv(scores.worst_first(connection, "-L1")).splitlines()
    assert lines[1].startswith(f"'=cmd(),{SHA},'-L1,3,2,fail,overrule,'@sum,")
    assert lines[1].endswith(",pass,")


def test_a_transaction_that_fails_leaves_nothing(database):
    def stumble():
        with database.write() as connection:
            drafts.create(connection, "L1")
            raise ValueError("half way")

    with pytest.raises(ValueError, match="half way"):
        stumble()
    with database.read() as connection:
        assert drafts.latest_open(connection) is None


def test_a_database_of_another_version_is_refused(database):
    with database.write() as connection:
        connection.execute("PRAGMA user_version=99")
    with pytest.raises(ArtifactError, match="has version 99, this sparcal reads 2"):
        Database.at(database.path.parent)


def write_for_ever(path, answered):
    database = Database(path)
    while True:
        with database.write() as connection:
            scores.judge(connection, 1, "confirm", "A. Roth")
        answered.value += 1


def test_a_killed_process_loses_no_decision_that_it_answered(database):
    with database.write() as connection:
        add_image(connection)
        scores.add(connection, SHA, "L1", {"score": 3.0, "threshold": 2.0, "verdict": "fail"})
    context = multiprocessing.get_context("spawn")
    for _ in range(3):
        answered = context.Value("q", 0)
        with database.read() as connection:
            before = connection.execute("SELECT count(*) FROM decisions").fetchone()[0]
        process = context.Process(target=write_for_ever, args=(database.path, answered))
        process.start()
        while answered.value < 5:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        with database.read() as connection:
            kept = connection.execute("SELECT count(*) FROM decisions").fetchone()[0] - before
            assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert answered.value <= kept <= answered.value + 1
