"""The web station's memory: one SQLite file (WAL) with images, drafts, jobs, scores and decisions.

Lots are not in here: they stay the files that the command line reads. Decisions can be added and never changed.
"""

from __future__ import annotations

import json
import sqlite3
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sparcal.errors import ArtifactError

_FIRST = """
CREATE TABLE images (
    sha TEXT PRIMARY KEY, name TEXT NOT NULL, bytes INTEGER NOT NULL, kind TEXT NOT NULL, state TEXT NOT NULL,
    width INTEGER, height INTEGER, problem TEXT, added TEXT NOT NULL);
CREATE TABLE drafts (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, state TEXT NOT NULL, created TEXT NOT NULL,
    checked TEXT, checks TEXT, result TEXT);
CREATE TABLE draft_images (
    draft INTEGER NOT NULL REFERENCES drafts, sha TEXT NOT NULL REFERENCES images, good INTEGER NOT NULL DEFAULT 0,
    comparison TEXT, PRIMARY KEY (draft, sha));
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, subject TEXT NOT NULL, priority INTEGER NOT NULL,
    state TEXT NOT NULL, done INTEGER NOT NULL DEFAULT 0, total INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0, cancel INTEGER NOT NULL DEFAULT 0, message TEXT,
    created TEXT NOT NULL, started TEXT, ended TEXT);
CREATE INDEX waiting ON jobs (state, priority, id);
CREATE TABLE arrivals (
    sha TEXT NOT NULL REFERENCES images, lot TEXT NOT NULL, PRIMARY KEY (lot, sha));
CREATE TABLE scores (
    id INTEGER PRIMARY KEY AUTOINCREMENT, sha TEXT NOT NULL REFERENCES images, lot TEXT NOT NULL,
    score REAL, threshold REAL, verdict TEXT, problem TEXT, created TEXT NOT NULL, UNIQUE (lot, sha));
CREATE INDEX worst ON scores (lot, score DESC);
CREATE TABLE decisions (
    id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, operator TEXT NOT NULL, kind TEXT NOT NULL,
    lot TEXT NOT NULL, score INTEGER REFERENCES scores, detail TEXT NOT NULL DEFAULT '{}');
CREATE INDEX of_score ON decisions (score, id);
CREATE TRIGGER decisions_stay BEFORE UPDATE ON decisions BEGIN SELECT RAISE(ABORT, 'decisions are kept'); END;
CREATE TRIGGER decisions_remain BEFORE DELETE ON decisions BEGIN SELECT RAISE(ABORT, 'decisions are kept'); END;
CREATE TRIGGER calibration_ended AFTER UPDATE OF state ON jobs
    WHEN NEW.kind = 'calibrate' AND NEW.state IN ('failed', 'cancelled', 'interrupted') BEGIN
    UPDATE drafts SET state = 'open' WHERE id = json_extract(NEW.subject, '$.draft') AND state = 'calibrating'; END;
CREATE TRIGGER calibration_again AFTER UPDATE OF state ON jobs WHEN NEW.kind = 'calibrate' AND NEW.state = 'queued' BEGIN
    UPDATE drafts SET state = 'calibrating' WHERE id = json_extract(NEW.subject, '$.draft') AND state = 'open'; END;
CREATE TABLE revision (number INTEGER NOT NULL);
INSERT INTO revision VALUES (1);
"""
# Images may be removed while their scores stay; `arrivals` holds only what still waits for a score; files of the watched
# folder are remembered.
_SECOND = """
CREATE INDEX kept ON images (state, added, bytes);
CREATE INDEX of_image ON scores (sha);
CREATE INDEX switched ON decisions (id) WHERE kind = 'watch';
CREATE TABLE watched (
    path BLOB PRIMARY KEY, bytes INTEGER NOT NULL, modified INTEGER NOT NULL, state TEXT NOT NULL);
DELETE FROM arrivals WHERE EXISTS (SELECT 1 FROM scores WHERE scores.lot = arrivals.lot AND scores.sha = arrivals.sha);
"""
# Newest first; why a watched file was refused; sessions that were ended.
_THIRD = """
CREATE INDEX newest ON scores (lot, id);
CREATE INDEX by_time ON scores (created);
ALTER TABLE watched ADD COLUMN problem TEXT;
CREATE TABLE ended_sessions (session TEXT PRIMARY KEY, at TEXT NOT NULL);
"""
# What the monitor read of each part, and the shifts that it noticed.
_FOURTH = """
CREATE TABLE readings (score INTEGER PRIMARY KEY REFERENCES scores, reading TEXT NOT NULL);
CREATE TABLE alarms (
    id INTEGER PRIMARY KEY AUTOINCREMENT, lot TEXT NOT NULL, first INTEGER NOT NULL REFERENCES scores,
    last INTEGER NOT NULL REFERENCES scores, what TEXT NOT NULL, at TEXT NOT NULL, ended TEXT, outcome TEXT,
    until INTEGER, draft INTEGER REFERENCES drafts);
CREATE INDEX raised ON alarms (lot, ended);
"""
# Counts by quarter of an hour, so that no page counts every part there ever was: days begin on a quarter in every zone.
_FIFTH = """
CREATE TABLE tallies (
    lot TEXT NOT NULL, quarter INTEGER NOT NULL, passed INTEGER NOT NULL DEFAULT 0, failed INTEGER NOT NULL DEFAULT 0,
    errors INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (lot, quarter)) WITHOUT ROWID;
INSERT INTO tallies SELECT lot, coalesce(strftime('%s', created) / 900, 0) AS quarter, coalesce(sum(verdict = 'pass'), 0),
    coalesce(sum(verdict = 'fail'), 0), sum(problem IS NOT NULL) FROM scores GROUP BY lot, quarter;
CREATE TRIGGER scores_tallied AFTER INSERT ON scores BEGIN
    INSERT OR IGNORE INTO tallies (lot, quarter) VALUES (NEW.lot, coalesce(strftime('%s', NEW.created) / 900, 0));
    UPDATE tallies SET passed = passed + coalesce(NEW.verdict = 'pass', 0),
        failed = failed + coalesce(NEW.verdict = 'fail', 0), errors = errors + (NEW.problem IS NOT NULL)
        WHERE lot = NEW.lot AND quarter = coalesce(strftime('%s', NEW.created) / 900, 0); END;
DROP INDEX worst;
CREATE INDEX worst ON scores (lot, problem IS NULL, score DESC, id);
CREATE INDEX held_to ON scores (lot, threshold, verdict, created);
CREATE INDEX findings ON decisions (lot, score, id, kind) WHERE score IS NOT NULL;
"""
# How far a job had come when it was last taken up: what is left is told from what was done since.
_SIXTH = """
ALTER TABLE jobs ADD COLUMN before INTEGER NOT NULL DEFAULT 0;
"""
VERSION = 6
_WATCHED = ("images", "drafts", "draft_images", "jobs", "arrivals", "scores", "decisions")


class Database:
    """The file, with a few open connections; each use has one to itself, so that threads need no agreement."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._idle: list[sqlite3.Connection] = []
        weakref.finalize(self, _close_all, self._idle)

    @classmethod
    def at(cls, folder: Path) -> Database:
        """The database of a web station's folder, made or checked."""
        folder.mkdir(parents=True, exist_ok=True)
        database = cls(folder / "station.sqlite3")
        with database.write() as connection:
            found = int(connection.execute("PRAGMA user_version").fetchone()[0])
            if found > VERSION:
                raise ArtifactError(
                    f"The web station's database has version {found}, this sparcal reads {VERSION}: "
                    "use the sparcal that wrote it."
                )
            if found < VERSION:
                _bring_up(connection, found)
        return database

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees one consistent state."""
        with self._connection() as connection:
            connection.execute("BEGIN")
            yield connection

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """A transaction that holds the write lock from its start: all of it happens, or nothing."""
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            connection = self._idle.pop()  # atomic, as is append
        except IndexError:
            connection = self._connect()
        try:
            yield connection
        finally:
            connection.rollback()  # nothing to take back after a COMMIT
            self._idle.append(connection)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=30, isolation_level=None, check_same_thread=False)
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")  # a decision that was answered survives a power cut
        connection.execute("PRAGMA foreign_keys=ON")
        return connection


def _close_all(connections: list[sqlite3.Connection]) -> None:
    while connections:
        connections.pop().close()


def packed(value: object) -> str:
    """A value as JSON text for a column."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def unpacked(text: str | None) -> Any:
    """The value of a JSON column; None stays None."""
    return None if text is None else json.loads(text)


def current_revision(connection: sqlite3.Connection) -> int:
    """How many changes there were: what was read at one number is out of date at the next."""
    return int(connection.execute("SELECT number FROM revision").fetchone()["number"])


def _bring_up(connection: sqlite3.Connection, found: int) -> None:
    """From whatever version was found (0 is an empty file) to ours, within the caller's transaction."""
    fourth = _FOURTH + _counting(("alarms",))
    for script in (_FIRST + _counting(_WATCHED), _SECOND, _THIRD, fourth, _FIFTH, _SIXTH)[found:]:
        for statement in _statements(script):
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version={VERSION}")


def _counting(tables: Sequence[str]) -> str:
    """Triggers that count every change, so that pages know when to look again."""
    return "".join(
        f"CREATE TRIGGER {table}_{event.lower()} AFTER {event} ON {table} "
        "BEGIN UPDATE revision SET number = number + 1; END;\n"
        for table in tables
        for event in ("INSERT", "UPDATE", "DELETE")
    )


def _statements(script: str) -> Iterator[str]:
    """Single statements: `executescript` would commit half a schema."""
    statement = ""
    for piece in script.split(";"):
        statement += piece + ";"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
