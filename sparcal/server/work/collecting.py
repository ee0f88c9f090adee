"""Copies of what lies in the watched folder, taken because somebody asked: for a draft, or to be judged."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from sparcal.errors import DataError
from sparcal.files.settled import BETWEEN_LOOKS_S, settled
from sparcal.server.data import drafts, jobs, retention, scores
from sparcal.server.data.database import Database
from sparcal.server.data.store import Store, Stored, display_name
from sparcal.server.refusals import ConflictError
from sparcal.server.work.reporting import Reporter
from sparcal.station.watch import image_marks

_NAMED = 5  # of the files that were refused


def collect(
    database: Database, store: Store, folder: Path | None, report: Reporter, *, draft: int | None, lot: str | None
) -> str:
    """Take the images of the folder, for a draft if one is named, else to be judged by a lot."""
    if folder is None:
        raise ConflictError("The station watches no folder: start it with --watch FOLDER.")
    earlier = image_marks(folder)
    time.sleep(BETWEEN_LOOKS_S)
    paths = settled(image_marks(folder), earlier)
    taken = 0
    refused: list[str] = []
    for done, path in enumerate(paths):
        report(done, len(paths))
        try:
            stored = store.copy(path)
        except (DataError, OSError):
            refused.append(path.name)
            continue
        with retention.arrival(database, store, stored) as connection:
            _let_in(connection, store, stored, draft=draft, lot=lot)
        taken += 1
    with database.write() as connection:
        jobs.enqueue(connection, "read", {})
        if draft is None:
            jobs.enqueue(connection, "score", {"lot": lot or ""})
    return outcome({"images taken": taken}, refused)


def outcome(counts: Mapping[str, int], refused: Sequence[str]) -> str:
    """One sentence about what came of it; files that were refused are named."""
    parts = [f"{count} {what}" for what, count in counts.items()]
    if refused:
        more = f" and {len(refused) - _NAMED} more" if len(refused) > _NAMED else ""
        parts.append(f"{len(refused)} refused: {', '.join(map(display_name, refused[:_NAMED]))}{more}")
    return ", ".join(parts) + "."


def _let_in(
    connection: sqlite3.Connection, store: Store, stored: Stored, *, draft: int | None, lot: str | None
) -> None:
    if draft is not None:
        drafts.require_room(connection, draft, stored.sha, limit=store.limits.draft_images)
        retention.admit(connection, store, stored)
        drafts.add_image(connection, draft, stored.sha, limit=store.limits.draft_images)
    elif not scores.known(connection, stored.sha, lot or ""):
        retention.admit(connection, store, stored)
        scores.arrive(connection, stored.sha, lot or "")
