"""Which images are kept: new ones come in, old ones make room or are forgotten; scores and decisions always stay.

An image that goes is first `leaving` in the database, then its files are removed, then it is `removed`. If a process
is killed in between, the next one carries on. Files come and go under the database's write lock, so an image that is
sent again while it leaves is either here or gone, never half of each.
"""

from __future__ import annotations

import logging
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from sqlite3 import Row

from sparcal.files.json_record import now
from sparcal.server.data.database import Database, packed
from sparcal.server.data.store import Store, Stored
from sparcal.server.refusals import TooLargeError
from sparcal.server.settings import Limits

GONE = ("leaving", "removed")
_log = logging.getLogger("sparcal.server")
_BATCH = 20
_MAY_GO = """
SELECT sha, bytes FROM images WHERE state IN ('ready', 'refused')
AND sha NOT IN (SELECT sha FROM arrivals)
AND sha NOT IN (SELECT sha FROM draft_images JOIN drafts ON drafts.id = draft_images.draft
    WHERE drafts.state IN ('open', 'calibrating', 'calibrated') OR (good = 1 AND drafts.result IS NOT NULL))
AND sha NOT IN (SELECT part.value FROM jobs, json_each(jobs.subject, '$.images') AS part
    WHERE jobs.kind = 'fit' AND jobs.state IN ('queued', 'running'))
"""
_OVERRULED = """
SELECT scores.sha FROM scores JOIN decisions AS word ON word.score = scores.id WHERE word.kind = 'overrule'
AND word.id = (SELECT max(id) FROM decisions WHERE decisions.score = scores.id)
"""


@contextmanager
def arrival(database: Database, store: Store, stored: Stored) -> Iterator[sqlite3.Connection]:
    """A transaction that may let an image in; afterwards no temporary file is left, and what had to go is gone."""
    try:
        with database.write() as connection:
            yield connection
    finally:
        stored.path.unlink(missing_ok=True)
    remove_files(database, store)


def admit(connection: sqlite3.Connection, store: Store, stored: Stored) -> bool:
    """Let in an image that has arrived, perhaps again after it was removed; False if it is here already."""
    row = connection.execute("SELECT state FROM images WHERE sha = ?", (stored.sha,)).fetchone()
    if row is not None and row["state"] not in GONE:
        return False
    _make_room(connection, store.limits, stored.bytes)
    target = store.image(stored.sha)
    target.parent.mkdir(parents=True, exist_ok=True)
    stored.path.replace(target)
    connection.execute(
        "INSERT INTO images (sha, name, bytes, kind, state, added) VALUES (?, ?, ?, ?, 'new', ?) "
        "ON CONFLICT (sha) DO UPDATE SET state = 'new', added = excluded.added",
        (stored.sha, stored.name, stored.bytes, stored.kind, now()),
    )
    return True


def may_go(connection: sqlite3.Connection, *, lot: str | None = None, overruled: bool = False) -> list[Row]:
    """Images that nothing needs any more, oldest first: judged, in no open draft, no calibration image, not overruled.

    Args:
        lot: only images that this lot has judged.
        overruled: those that were overruled too.
    """
    query = _MAY_GO if overruled else f"{_MAY_GO} AND sha NOT IN ({_OVERRULED})"
    if lot is not None:
        query += " AND sha IN (SELECT sha FROM scores WHERE scores.lot = :lot)"
    return connection.execute(f"{query} ORDER BY added, rowid", {"lot": lot}).fetchall()


def forget_images(connection: sqlite3.Connection, lot: str, operator: str, *, overruled: bool) -> int:
    """Remove the images that a lot has judged and keep who asked; returns how many they are."""
    rows = may_go(connection, lot=lot, overruled=overruled)
    _leave(connection, [row["sha"] for row in rows])
    connection.execute(
        "INSERT INTO decisions (at, operator, kind, lot, detail) VALUES (?, ?, 'forget', ?, ?)",
        (now(), operator, lot, packed({"images": len(rows), "overruled": overruled})),
    )
    return len(rows)


def usage(connection: sqlite3.Connection) -> Row:
    """How many images are kept, and how many bytes they take."""
    row: Row = connection.execute(
        "SELECT count(*) AS images, coalesce(sum(bytes), 0) AS bytes FROM images "
        "WHERE state IN ('new', 'ready', 'refused')"
    ).fetchone()
    return row


def remove_files(database: Database, store: Store) -> None:
    """Remove the files of images that are leaving; one that cannot be removed now is tried again later."""
    while True:
        with database.read() as connection:
            if connection.execute("SELECT 1 FROM images WHERE state = 'leaving' LIMIT 1").fetchone() is None:
                return
        with database.write() as connection:
            rows = connection.execute("SELECT sha FROM images WHERE state = 'leaving' LIMIT ?", (_BATCH,)).fetchall()
            try:
                for row in rows:
                    store.discard(row["sha"])
            except OSError as error:
                _log.warning("an image that left cannot be removed: %s", error)
                return
            connection.executemany("UPDATE images SET state = 'removed' WHERE sha = ?", [(row["sha"],) for row in rows])


def sweep(database: Database, store: Store) -> None:
    """Remove what a worker that died left behind; the caller holds the worker's lock."""
    remove_files(database, store)
    shutil.rmtree(store.folder / "named", ignore_errors=True)
    for unfinished in (store.folder / "pictures").glob("*/.*"):
        unfinished.unlink(missing_ok=True)
    held = store.held()
    with database.read() as connection:
        strangers = held - _here(connection)
    for sha in strangers:
        with database.write() as connection:
            if connection.execute(
                "SELECT 1 FROM images WHERE sha = ? AND state NOT IN (?, ?)", (sha, *GONE)
            ).fetchone():
                continue  # it arrived meanwhile
            store.discard(sha)


def _make_room(connection: sqlite3.Connection, limits: Limits, size: int) -> None:
    """Send away the oldest images that nothing needs: a few more than necessary, to spare the next uploads the work."""
    held = usage(connection)
    images, volume = held["images"] + 1 - limits.images, held["bytes"] + size - limits.store_bytes
    if images <= 0 and volume <= 0:
        return
    chosen: list[str] = []
    freed = 0
    for row in may_go(connection):
        if len(chosen) >= images + limits.images // 100 and freed >= volume + limits.store_bytes // 100:
            break
        chosen.append(row["sha"])
        freed += row["bytes"]
    if len(chosen) < images or freed < volume:
        raise TooLargeError(
            f"A web station keeps at most {limits.images} images and {limits.store_bytes / 2**30:.3g} GB, and all that "
            "are here are still needed (they wait, belong to a draft or a lot, or were overruled): finish or discard "
            "drafts, or download overruled images and then forget them on the Judge page."
        )
    _leave(connection, chosen)


def _leave(connection: sqlite3.Connection, shas: list[str]) -> None:
    connection.executemany("UPDATE images SET state = 'leaving' WHERE sha = ?", [(sha,) for sha in shas])


def _here(connection: sqlite3.Connection) -> set[str]:
    rows = connection.execute("SELECT sha FROM images WHERE state IN ('new', 'ready', 'refused')")
    return {row["sha"] for row in rows}
