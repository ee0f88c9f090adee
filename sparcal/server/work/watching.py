"""The watched folder, judged as images arrive: who switched that on or off, which files were seen, which were taken.

A file is `growing` until two looks in a row find it unchanged, then `settled`, and `taken` or `refused` after a job has
had it. All of that is in the database, so that a restart takes nothing twice and forgets nothing.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sparcal.errors import DataError
from sparcal.server.data import jobs, retention, scores
from sparcal.server.data.database import Database, Row, now, packed, unpacked
from sparcal.server.data.store import Store

_log = logging.getLogger("sparcal.server.work.worker")
_LOOK_S = 2.0
_JOB = {"watch": True}
Seen = tuple[int, int]  # bytes, and when it was modified in nanoseconds


@dataclass(frozen=True)
class Switch:
    """Whether the folder is judged by itself; nobody has switched it yet if `operator` is None."""

    on: bool
    operator: str | None
    since: str | None


def switch(connection: sqlite3.Connection) -> Switch:
    """As the latest decision left it; whoever names a folder on the command line wants it judged."""
    row = connection.execute("SELECT * FROM decisions WHERE kind = 'watch' ORDER BY id DESC LIMIT 1").fetchone()
    return (
        Switch(True, None, None) if row is None else Switch(unpacked(row["detail"])["on"], row["operator"], row["at"])
    )


def turn(connection: sqlite3.Connection, *, on: bool, operator: str) -> None:
    """Switch it on or off and keep who did; what is so already needs no decision."""
    if switch(connection).on == on:
        return
    connection.execute(
        "INSERT INTO decisions (at, operator, kind, lot, detail) VALUES (?, ?, 'watch', '', ?)",
        (now(), operator, packed({"on": on})),
    )
    if on:
        jobs.enqueue(connection, "collect", _JOB)  # files may have settled before it was switched off


def look(database: Database, folder: Path) -> None:
    """Note what has come, changed or gone since the last look, and queue a job once files have settled."""
    with database.read() as connection:
        if not switch(connection).on:
            return
        if not folder.is_dir():  # a share that is away for a while; what it held is remembered
            return
        known = {row["path"]: row for row in connection.execute("SELECT * FROM watched")}
    found = _files(folder)
    gone = [(path,) for path in known.keys() - found.keys()]
    changed = [(path, *seen) for path, seen in found.items() if path not in known or _noted(known[path]) != seen]
    still = {path for path, row in known.items() if row["state"] == "growing" and found.get(path) == _noted(row)}
    if not (gone or changed or still):
        return
    with database.write() as connection:
        connection.executemany("DELETE FROM watched WHERE path = ?", gone)
        connection.executemany("INSERT OR REPLACE INTO watched VALUES (?, ?, ?, 'growing')", changed)
        connection.executemany("UPDATE watched SET state = 'settled' WHERE path = ?", [(path,) for path in still])
        if still:
            jobs.enqueue(connection, "collect", _JOB)


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
    """Let settled files in, to be judged by a lot; content that was judged before, by whatever lot, is not again."""
    with database.read() as connection:
        if not switch(connection).on:
            return "The watched folder is no longer judged by itself."
        rows = connection.execute("SELECT * FROM watched WHERE state = 'settled' ORDER BY modified, path").fetchall()
    counts = {"taken": 0, "known already": 0, "refused": 0}
    for done, row in enumerate(rows):
        report(done, len(rows))
        path = Path(os.fsdecode(row["path"]))
        try:
            stored = store.copy(path)
            unchanged = _seen(path) == _noted(row)
        except DataError:
            with database.write() as connection:
                _note(connection, row, "refused")
            counts["refused"] += 1
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
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count or what == "taken") + "."


def _files(folder: Path) -> dict[bytes, Seen]:
    from sparcal.imaging.find import find_images

    try:
        paths = find_images(folder)
    except DataError:  # nothing is in it
        return {}
    found = {}
    for path in paths:
        try:
            found[os.fsencode(path)] = _seen(path)
        except OSError:  # it went while we looked
            continue
    return found


def _seen(path: Path) -> Seen:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _noted(row: Row) -> Seen:
    return row["bytes"], row["modified"]


def _note(connection: sqlite3.Connection, row: Row, state: Literal["taken", "refused"]) -> None:
    """Unless another look has seen it change meanwhile."""
    connection.execute(
        "UPDATE watched SET state = ? WHERE path = ? AND bytes = ? AND modified = ?",
        (state, row["path"], row["bytes"], row["modified"]),
    )
