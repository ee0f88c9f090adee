"""What a line looks at: the latest scores in the order they came, and how many parts passed on which day."""

from __future__ import annotations

import sqlite3
from typing import Any


def latest_points(connection: sqlite3.Connection, *, limit: int) -> list[dict[str, Any]]:
    """The latest scores of all references, oldest first, each with the threshold it was held against."""
    rows = connection.execute(
        "SELECT scores.id, scores.lot, scores.score, scores.threshold, scores.verdict, scores.created AS at, images.name "
        "FROM scores JOIN images USING (sha) WHERE scores.score IS NOT NULL ORDER BY scores.id DESC LIMIT ?",
        (limit,),
    ).fetchall()
    return [dict(row) for row in rows[::-1]]


def alarms_since(connection: sqlite3.Connection, score: int) -> list[dict[str, Any]]:
    """Shifts that were noticed at or after the score of that number."""
    rows = connection.execute("SELECT first, last, what FROM alarms WHERE last >= ? ORDER BY id", (score,))
    return [dict(row) for row in rows]


def daily_counts(connection: sqlite3.Connection, *, days: int) -> list[dict[str, Any]]:
    """Passed and failed per day, as the station's clock counts days, and per reference; the latest day first."""
    rows = connection.execute(
        "SELECT date(quarter * 900, 'unixepoch', 'localtime') AS day, lot, sum(passed) AS passed, sum(failed) AS failed, "
        "sum(errors) AS errors FROM tallies WHERE quarter >= strftime('%s', 'now', ?) / 900 "
        "GROUP BY day, lot ORDER BY day DESC, max(quarter) DESC, lot",
        (f"-{days} days",),
    )
    return [dict(row) for row in rows]


def lot_counts(connection: sqlite3.Connection) -> dict[str, dict[str, int]]:
    """Passed and failed per reference; the empty name is the station's own."""
    rows = connection.execute(
        "SELECT lot, sum(passed + failed + errors) AS scored, sum(passed) AS passed, sum(failed) AS failed "
        "FROM tallies GROUP BY lot"
    )
    return {row["lot"]: {name: row[name] for name in ("scored", "passed", "failed")} for row in rows}
