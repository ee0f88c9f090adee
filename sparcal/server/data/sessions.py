"""Sessions that somebody has ended: remembered until they would have run out, also across a restart."""

from __future__ import annotations

import hashlib
import sqlite3

from sparcal.files.json_record import now


def end_session(connection: sqlite3.Connection, session: str) -> None:
    """Remember that a session is over, by its hash."""
    connection.execute("INSERT OR IGNORE INTO ended_sessions VALUES (?, ?)", (session_hash(session), now()))


def ended_sessions(connection: sqlite3.Connection) -> set[str]:
    """Hashes of all that are over."""
    return {row["session"] for row in connection.execute("SELECT session FROM ended_sessions")}


def session_hash(session: str) -> str:
    """What a session is remembered by: its cookie stays a secret even in the database."""
    return hashlib.sha256(session.encode("utf-8", "surrogatepass")).hexdigest()
