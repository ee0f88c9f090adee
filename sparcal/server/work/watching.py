"""The watched folder, judged as images arrive: which files were seen, and which were taken.

A file is `growing` until two looks in a row find it unchanged, then `settled`, and `taken` or `refused` once a job has
dealt with it. All of that is in the database, so a restart takes nothing twice and forgets nothing.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from sqlite3 import Row
from typing import Literal

from sparcal.errors import DataError
from sparcal.files.settled import FileMark, file_mark, settled
from sparcal.server.data import jobs, retention, scores
from sparcal.server.data.database import Database
from sparcal.server.data.store import Store
from sparcal.server.data.watch_switch import WATCH_JOB, read_switch
from sparcal.server.sentences import sentence_of
from sparcal.server.work.collecting import outcome
from sparcal.station.watch import image_marks

_log = logging.getLogger("sparcal.server.work.worker")
_LOOK_S = 2.0


def look(database: Database, folder: Path) -> None:
    """Note what has come, changed or gone since the last look, and queue a job once files have settled."""
    with database.read() as connection:
        if not read_switch(connection).on:
            return
        if not folder.is_dir():  # a share that is away for a while; what it held is remembered
            return
        known = {row["path"]: row for row in connection.execute("SELECT * FROM watched")}
    found = _files(folder)
    gone = [(path,) for path in known.keys() - found.keys()]
    whole = settled(found, {path: _noted(row) for path, row in known.items()})
    changed = [(path, *found[path]) for path in found.keys() - set(whole)]
    still = [path for path in whole if known[path]["state"] == "growing"]
    if not (gone or changed or still):
        return
    with database.write() as connection:
        connection.executemany("DELETE FROM watched WHERE path = ?", gone)
        connection.executemany(
            "INSERT OR REPLACE INTO watched (path, bytes, modified, state) VALUES (?, ?, ?, 'growing')", changed
        )
        connection.executemany("UPDATE watched SET state = 'settled' WHERE path = ?", [(path,) for path in still])
        if still:
            jobs.enqueue(connection, "collect", WATCH_JOB)


def keep_looking(database: Database, folder: Path) -> None:
    """Look every few seconds, for ever; a folder that takes long is looked at less often."""
    while True:
        begun = time.monotonic()
        try:
            look(database, folder)
        except (OSError, sqlite3.Error) as error:
            _log.warning("the watched folder cannot be looked at now: %s", error)
        time.sleep(max(_LOOK_S, 10 * (time.monotonic() - begun)))


def take(database: Database, store: Store, lot: str, report: Callable[[int, int], None]) -> str:
    """Let settled files in, to be judged by a lot; content that any lot has judged is not judged again."""
    with database.read() as connection:
        if not read_switch(connection).on:
            return "The watched folder is no longer judged by itself."
        rows = connection.execute("SELECT * FROM watched WHERE state = 'settled' ORDER BY modified, path").fetchall()
    counts = {"taken": 0, "known already": 0}
    refused: list[str] = []
    for done, row in enumerate(rows):
        report(done, len(rows))
        path = Path(os.fsdecode(row["path"]))
        try:
            stored = store.copy(path)
            unchanged = file_mark(path) == _noted(row)
        except DataError as error:
            problem = sentence_of(error, {str(path): path.name})
            with database.write() as connection:
                _note(connection, row, "refused", problem)
            refused.append(path.name)
            continue
        except OSError:  # gone, or not ours to read: the next look sees what became of it
            continue
        if not unchanged:
            stored.path.unlink()
            continue
        with retention.arrival(database, store, stored) as connection:
            _note(connection, row, "taken")
            if scores.ever_arrived(connection, stored.sha):
                counts["known already"] += 1
                continue
            retention.admit(connection, store, stored)
            scores.arrive(connection, stored.sha, lot)
            jobs.enqueue(connection, "score", {"lot": lot})
            counts["taken"] += 1
    return outcome({what: count for what, count in counts.items() if count or what == "taken"}, refused)


def _files(folder: Path) -> dict[bytes, FileMark]:
    return {os.fsencode(path): mark for path, mark in image_marks(folder).items()}


def _noted(row: Row) -> FileMark:
    return row["bytes"], row["modified"]


def _note(
    connection: sqlite3.Connection, row: Row, state: Literal["taken", "refused"], problem: str | None = None
) -> None:
    """Unless another look has seen it change meanwhile."""
    connection.execute(
        "UPDATE watched SET state = ?, problem = ? WHERE path = ? AND bytes = ? AND modified = ?",
        (state, problem, row["path"], row["bytes"], row["modified"]),
    )
