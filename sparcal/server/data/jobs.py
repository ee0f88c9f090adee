"""The queue: what was asked for, what is running, how it ended. One worker per station takes jobs in order.

States: queued -> running -> done | failed | cancelled; a job whose worker died is queued once more, and after a
second death is interrupted, which a person can retry.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from sqlite3 import Row
from typing import Any, Literal

from sparcal.files.json_record import now
from sparcal.server.data.database import Database, packed, unpacked

JobKind = Literal["read", "collect", "check", "calibrate", "fit", "score"]
# Short work that somebody is looking at goes first; scoring gives way between images and goes on where it stopped.
PRIORITY: dict[JobKind, int] = {"read": 0, "collect": 0, "check": 1, "calibrate": 2, "fit": 3, "score": 3}
MAX_ATTEMPTS = 2


@dataclass(frozen=True)
class Job:
    """One job as the worker sees it; `done` and `total` are of an earlier attempt, which may go on from there."""

    id: int
    kind: JobKind
    subject: dict[str, Any]
    attempts: int
    done: int = 0
    total: int = 0


def enqueue(connection: sqlite3.Connection, kind: JobKind, subject: dict[str, Any]) -> int:
    """The number of a new job, or of one like it that still waits."""
    text = packed(subject)
    waiting = connection.execute(
        "SELECT id FROM jobs WHERE state = 'queued' AND kind = ? AND subject = ?", (kind, text)
    ).fetchone()
    if waiting:
        return int(waiting["id"])
    added = connection.execute(
        "INSERT INTO jobs (kind, subject, priority, state, created) VALUES (?, ?, ?, 'queued', ?)",
        (kind, text, PRIORITY[kind], now()),
    )
    return int(added.lastrowid or 0)


def claim(database: Database) -> Job | None:
    """The next job, now running; None if none waits."""
    with database.read() as connection:  # looking costs no write lock
        if connection.execute("SELECT 1 FROM jobs WHERE state = 'queued' LIMIT 1").fetchone() is None:
            return None
    with database.write() as connection:
        row = connection.execute("SELECT * FROM jobs WHERE state = 'queued' ORDER BY priority, id LIMIT 1").fetchone()
        if row is None:
            return None
        connection.execute(
            "UPDATE jobs SET state = 'running', attempts = attempts + 1, started = ?, before = done, message = NULL "
            "WHERE id = ?",
            (now(), row["id"]),
        )
        return Job(row["id"], row["kind"], unpacked(row["subject"]), row["attempts"] + 1, row["done"], row["total"])


def note_progress(database: Database, job: int, *, done: int, total: int) -> bool:
    """Note how far a job has come; returns whether somebody asked to cancel it."""
    with database.write() as connection:
        connection.execute("UPDATE jobs SET done = ?, total = ? WHERE id = ?", (done, total, job))
        return bool(connection.execute("SELECT cancel FROM jobs WHERE id = ?", (job,)).fetchone()["cancel"])


def finish(database: Database, job: int, state: Literal["done", "failed", "cancelled"], *, message: str = "") -> None:
    """Close a running job."""
    with database.write() as connection:
        connection.execute(
            "UPDATE jobs SET state = ?, message = ?, ended = ? WHERE id = ? AND state = 'running'",
            (state, message, now(), job),
        )


def step_back(database: Database, job: int) -> None:
    """Put a running job back in the queue because more urgent work waits."""
    with database.write() as connection:
        connection.execute(
            "UPDATE jobs SET state = 'queued', attempts = attempts - 1 WHERE id = ? AND state = 'running'", (job,)
        )


def urgent_waits(database: Database, kind: JobKind) -> bool:
    """Whether something more urgent than `kind` is queued."""
    with database.read() as connection:
        found = connection.execute(
            "SELECT 1 FROM jobs WHERE state = 'queued' AND priority < ? LIMIT 1", (PRIORITY[kind],)
        ).fetchone()
    return found is not None


def recover(database: Database) -> None:
    """Queue or close the jobs of a worker that died; the caller holds the worker's lock, so none still runs."""
    with database.write() as connection:
        connection.execute(
            "UPDATE jobs SET state = 'cancelled', ended = ?, message = 'Stopped by the operator.' "
            "WHERE state = 'running' AND cancel = 1",
            (now(),),
        )
        connection.execute("UPDATE jobs SET state = 'queued' WHERE state = 'running' AND attempts < ?", (MAX_ATTEMPTS,))
        connection.execute(
            "UPDATE jobs SET state = 'interrupted', ended = ?, message = 'The worker stopped twice while doing this.' "
            "WHERE state = 'running'",
            (now(),),
        )


def cancel(connection: sqlite3.Connection, job: int) -> bool:
    """Cancel a job that waits, ask a running one to stop; False if it was over already."""
    waiting = connection.execute(
        "UPDATE jobs SET state = 'cancelled', cancel = 1, ended = ?, message = 'Stopped by the operator.' "
        "WHERE id = ? AND state = 'queued'",
        (now(), job),
    )
    running = connection.execute("UPDATE jobs SET cancel = 1 WHERE id = ? AND state = 'running'", (job,))
    return waiting.rowcount + running.rowcount > 0


def retry(connection: sqlite3.Connection, job: int) -> bool:
    """Queue a job again that failed, was cancelled or was interrupted; False for any other."""
    again = connection.execute(
        "UPDATE jobs SET state = 'queued', attempts = 0, cancel = 0, message = NULL, ended = NULL, done = 0 "
        "WHERE id = ? AND state IN ('failed', 'cancelled', 'interrupted')",
        (job,),
    )
    return again.rowcount > 0


def recent(connection: sqlite3.Connection, *, limit: int = 30) -> list[Row]:
    """Everything that runs or waits, then the latest that are over."""
    return connection.execute(
        "SELECT * FROM jobs ORDER BY state NOT IN ('running', 'queued'), state = 'queued', "
        "CASE WHEN state = 'queued' THEN priority END, CASE WHEN state = 'queued' THEN id END, id DESC LIMIT ?",
        (limit,),
    ).fetchall()


def open_of(connection: sqlite3.Connection, kind: JobKind, subject: dict[str, Any]) -> Row | None:
    """The queued or running job for exactly this, if there is one."""
    row: Row | None = connection.execute(
        "SELECT * FROM jobs WHERE kind = ? AND subject = ? AND state IN ('queued', 'running') ORDER BY id DESC LIMIT 1",
        (kind, packed(subject)),
    ).fetchone()
    return row
