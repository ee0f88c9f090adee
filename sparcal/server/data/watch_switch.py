"""Whether the watched folder is judged as images arrive, and who switched that on or off."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass

from sparcal.files.json_record import now
from sparcal.server.data import jobs
from sparcal.server.data.database import packed, unpacked
from sparcal.server.data.store import display_name

WATCH_JOB = {"watch": True}  # what a job is about that takes in settled files


@dataclass(frozen=True)
class WatchSwitch:
    """The switch; `operator` is None until somebody has touched it."""

    on: bool
    operator: str | None
    since: str | None


def read_switch(connection: sqlite3.Connection) -> WatchSwitch:
    """As the latest decision left it; whoever names a folder on the command line wants it judged."""
    row = connection.execute("SELECT * FROM decisions WHERE kind = 'watch' ORDER BY id DESC LIMIT 1").fetchone()
    if row is None:
        return WatchSwitch(True, None, None)
    return WatchSwitch(unpacked(row["detail"])["on"], row["operator"], row["at"])


def refused_files(connection: sqlite3.Connection, *, limit: int = 50) -> list[dict[str, str]]:
    """Files of the folder that cannot be judged, the latest first, and why."""
    rows = connection.execute(
        "SELECT path, problem FROM watched WHERE state = 'refused' ORDER BY modified DESC LIMIT ?", (limit,)
    )
    return [
        {"name": display_name(os.fsdecode(row["path"])), "problem": row["problem"] or "It cannot be read."}
        for row in rows
    ]


def turn_watching(connection: sqlite3.Connection, *, on: bool, operator: str) -> None:
    """Switch it on or off and keep who did; nothing is kept if it is so already."""
    if read_switch(connection).on == on:
        return
    connection.execute(
        "INSERT INTO decisions (at, operator, kind, lot, detail) VALUES (?, ?, 'watch', '', ?)",
        (now(), operator, packed({"on": on})),
    )
    if on:
        jobs.enqueue(connection, "collect", WATCH_JOB)  # files may have settled before it was switched off
