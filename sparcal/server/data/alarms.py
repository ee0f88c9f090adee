"""Shifts that the station has noticed: since when, what is different, what somebody did about it.

What the monitor read of each part is kept beside its score, so that a worker which starts anew knows all that the last one
knew. An alarm ends when somebody dismisses it or when another lot judges.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from sqlite3 import Row
from typing import Any

from sparcal.calibration.defaults import FEWEST_KEPT, ONE_IN
from sparcal.files.json_record import now, read_json
from sparcal.server.data.database import packed
from sparcal.server.refusals import ConflictError, NotFoundError
from sparcal.station.folder import StationFolder
from sparcal.station.kept_images import PREFIX

SHOWN_PARTS = 6  # parts that the page shows
DRAFTED = 16  # parts that a draft begins with: twice what is usually needed, so that bad ones can be passed over
STATION = "the station"  # who notices


@dataclass(frozen=True)
class WatchedSpan:
    """The part of the stream that one monitor is responsible for.

    Args:
        since: the reference judges since then; empty for ever.
        dismissed: the last alarm of it that somebody dismissed.
    """

    lot: str
    since: str
    dismissed: int | None


def span_of(connection: sqlite3.Connection, station: StationFolder, lot: str) -> WatchedSpan:
    """As it is now."""
    since = judging_since(station, lot)
    row = connection.execute(
        "SELECT max(id) AS id FROM alarms WHERE lot = ? AND outcome = 'dismissed' AND at >= ?", (lot, since)
    ).fetchone()
    return WatchedSpan(lot, since, row["id"])


def judging_since(station: StationFolder, lot: str) -> str:
    """Since when a reference judges; the station's own begins anew when parts are added to it."""
    path = station.root / "active"
    since = str(read_json(path)["since"]) if path.is_file() else ""
    return since if lot else max(since, str(station.read_station()["created"]))


def monitored(station: StationFolder, lot: str) -> str:
    """Whether shifts are watched for, in one sentence."""
    record = station.read_lot(lot) if lot else station.read_station()
    kept = sum(name.startswith(PREFIX) for name in record.get("files", ()))
    if kept < FEWEST_KEPT:
        return (
            f"Shifts are not watched for: only {kept} images of good parts were kept to compare with. "
            "Calibrate a lot on at least 3 parts."
        )
    return f"Shifts are watched for, with on average at most one false alarm in {ONE_IN:,} parts."


def keep_reading(connection: sqlite3.Connection, sha: str, lot: str, reading: list[float]) -> int:
    """Keep what the monitor read of a part that was just judged; returns the number of its score."""
    score = connection.execute("SELECT id FROM scores WHERE sha = ? AND lot = ?", (sha, lot)).fetchone()["id"]
    connection.execute("INSERT OR IGNORE INTO readings (score, reading) VALUES (?, ?)", (score, packed(reading)))
    return int(score)


def kept_readings(connection: sqlite3.Connection, span: WatchedSpan) -> tuple[list[Row], list[Row]]:
    """What a monitor has read, in order: parts that were declared the new normal, and the stream after them."""
    rows = connection.execute(
        "SELECT readings.score, readings.reading FROM readings JOIN scores ON scores.id = readings.score "
        "WHERE scores.lot = ? AND scores.created >= ? ORDER BY readings.score",
        (span.lot, span.since),
    ).fetchall()
    if span.dismissed is None:
        return [], rows
    alarm = read_alarm(connection, span.dismissed)
    until = alarm["until"]
    return [r for r in rows if alarm["first"] <= r["score"] <= until], [r for r in rows if r["score"] > until]


def raise_alarm(connection: sqlite3.Connection, lot: str, *, first: int, last: int, what: str) -> int:
    """Keep that a shift was noticed.

    Args:
        first, last: numbers of the scores between which the parts look different.
        what: is different, as a clause.
    """
    added = connection.execute(
        "INSERT INTO alarms (lot, first, last, what, at) VALUES (?, ?, ?, ?, ?)", (lot, first, last, what, now())
    )
    _record(connection, "alarm", lot, STATION, {"what": what})
    return int(added.lastrowid or 0)


def open_alarm(connection: sqlite3.Connection, station: StationFolder, lot: str) -> dict[str, Any] | None:
    """The alarm about what judges now; None while all is well."""
    row = connection.execute(
        "SELECT * FROM alarms WHERE lot = ? AND ended IS NULL AND at >= ? ORDER BY id DESC LIMIT 1",
        (lot, judging_since(station, lot)),
    ).fetchone()
    return None if row is None else alarm_facts(connection, row)


def alarm_facts(connection: sqlite3.Connection, row: Row) -> dict[str, Any]:
    """An alarm with since when, how many parts, and some of them."""
    first = connection.execute("SELECT created FROM scores WHERE id = ?", (row["first"],)).fetchone()
    parts = parts_since(connection, row["lot"], row["first"])
    counted = connection.execute(
        "SELECT count(*) AS n, coalesce(sum(verdict = 'fail'), 0) AS failed FROM scores "
        "WHERE lot = ? AND id BETWEEN ? AND coalesce(?, id)",
        (row["lot"], row["first"], row["until"]),
    ).fetchone()
    draft = connection.execute(
        "SELECT id FROM drafts WHERE id = ? AND state IN ('open', 'calibrating', 'calibrated')", (row["draft"],)
    ).fetchone()
    return {
        **{name: row[name] for name in ("id", "lot", "at", "ended", "outcome", "what", "first", "last")},
        "draft": None if draft is None else draft["id"],
        "since": first["created"],
        "count": counted["n"],
        "failed": counted["failed"],
        "parts": [{"sha": part["sha"], "name": part["name"], "score": part["id"]} for part in parts[:SHOWN_PARTS]],
    }


def read_alarm(connection: sqlite3.Connection, alarm: int) -> Row:
    """The alarm, or a NotFoundError."""
    row: Row | None = connection.execute("SELECT * FROM alarms WHERE id = ?", (alarm,)).fetchone()
    if row is None:
        raise NotFoundError(f"There is no alarm {alarm}.")
    return row


def latest_alarms(connection: sqlite3.Connection, *, limit: int) -> list[dict[str, Any]]:
    """Every alarm, the latest first."""
    rows = connection.execute("SELECT * FROM alarms ORDER BY id DESC LIMIT ?", (limit,)).fetchall()
    return [alarm_facts(connection, row) for row in rows]


def parts_since(connection: sqlite3.Connection, lot: str, first: int) -> list[Row]:
    """Parts that look different and are still here, the latest first."""
    return connection.execute(
        "SELECT scores.id, scores.sha, images.name FROM scores JOIN images USING (sha) WHERE scores.lot = ? "
        "AND scores.id >= ? AND scores.problem IS NULL AND images.state = 'ready' ORDER BY scores.id DESC LIMIT ?",
        (lot, first, DRAFTED),
    ).fetchall()


def dismiss_alarm(connection: sqlite3.Connection, alarm: int, *, operator: str, reason: str) -> None:
    """Somebody has looked: the parts are in order as they look now, and later ones are compared with them."""
    row = _require_open(connection, alarm)
    last = connection.execute("SELECT max(id) AS id FROM scores WHERE lot = ?", (row["lot"],)).fetchone()["id"]
    connection.execute(
        "UPDATE alarms SET ended = ?, outcome = 'dismissed', until = ? WHERE id = ?", (now(), last, alarm)
    )
    _record(connection, "dismiss", row["lot"], operator, {"why": reason})


def note_draft(connection: sqlite3.Connection, alarm: int, draft: int) -> None:
    """A draft was begun from the parts of an alarm; the alarm stays until a lot judges."""
    _require_open(connection, alarm)
    connection.execute("UPDATE alarms SET draft = ? WHERE id = ?", (draft, alarm))


def end_alarms(connection: sqlite3.Connection) -> None:
    """Another reference judges from now on, so nothing is said any more about the last one."""
    connection.execute("UPDATE alarms SET ended = ?, outcome = 'another lot' WHERE ended IS NULL", (now(),))


def _require_open(connection: sqlite3.Connection, alarm: int) -> Row:
    row = read_alarm(connection, alarm)
    if row["ended"] is not None:
        raise ConflictError("This alarm is over: somebody dismissed it, or another lot judges now.")
    return row


def _record(connection: sqlite3.Connection, kind: str, lot: str, operator: str, detail: dict[str, Any]) -> None:
    connection.execute(
        "INSERT INTO decisions (at, operator, kind, lot, detail) VALUES (?, ?, ?, ?, ?)",
        (now(), operator, kind, lot, packed(detail)),
    )
