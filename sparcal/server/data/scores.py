"""Scored images and what people decided about them: the latest decision counts, and every one is kept."""

from __future__ import annotations

import csv
import io
import sqlite3
from sqlite3 import Row
from typing import Any, Literal

from sparcal.files.json_record import now
from sparcal.server.data.database import packed
from sparcal.server.refusals import ConflictError, NotFoundError

Review = Literal["confirm", "overrule"]

_LATEST = (
    "SELECT scores.*, images.name, images.width, images.height, images.kind, "
    "images.state IN ('leaving', 'removed') AS removed, decision.kind AS decision, "
    "decision.operator, decision.at FROM scores JOIN images USING (sha) LEFT JOIN decisions AS decision ON "
    "decision.id = (SELECT max(id) FROM decisions WHERE decisions.score = scores.id) "
)
_FILTERS = {
    "all": "",
    "open": " AND decision.kind IS NULL AND scores.problem IS NULL",
    "fail": " AND scores.verdict = 'fail'",
    "overruled": " AND decision.kind = 'overrule'",
    "error": " AND scores.problem IS NOT NULL",
}
Filter = Literal["all", "open", "fail", "overruled", "error"]


def list_worst_first(
    connection: sqlite3.Connection, lot: str, *, which: Filter = "all", limit: int = 100, offset: int = 0
) -> list[Row]:
    """Scores of a lot, the most anomalous first; images that could not be scored come before all."""
    return connection.execute(
        f"{_LATEST} WHERE scores.lot = ?{_FILTERS[which]} "
        "ORDER BY scores.problem IS NULL, scores.score DESC, scores.id LIMIT ? OFFSET ?",
        (lot, limit, offset),
    ).fetchall()


def read_score(connection: sqlite3.Connection, score: int) -> Row:
    """One score, or a NotFoundError."""
    row: Row | None = connection.execute(f"{_LATEST} WHERE scores.id = ?", (score,)).fetchone()
    if row is None:
        raise NotFoundError(f"There is no score {score}.")
    return row


def counts(connection: sqlite3.Connection, lot: str) -> dict[str, int]:
    """How many images of a lot passed, failed, could not be scored, and were decided on."""
    row = connection.execute(
        "SELECT count(*) AS scored, coalesce(sum(verdict = 'pass'), 0) AS passed, "
        "coalesce(sum(verdict = 'fail'), 0) AS failed, coalesce(sum(problem IS NOT NULL), 0) AS errors, "
        "coalesce(sum(decision = 'confirm'), 0) AS confirmed, coalesce(sum(decision = 'overrule'), 0) AS overruled "
        f"FROM ({_LATEST} WHERE scores.lot = ?)",
        (lot,),
    ).fetchone()
    return dict(row)


def arrive(connection: sqlite3.Connection, sha: str, lot: str) -> None:
    """Note that an image is to be scored under a lot; an earlier score stays, and only its pictures are made again."""
    connection.execute("INSERT OR IGNORE INTO arrivals (sha, lot) VALUES (?, ?)", (sha, lot))


def known(connection: sqlite3.Connection, sha: str, lot: str) -> bool:
    """Whether an image was scored under a lot."""
    found = connection.execute("SELECT 1 FROM scores WHERE sha = ? AND lot = ?", (sha, lot)).fetchone()
    return found is not None


def ever_arrived(connection: sqlite3.Connection, sha: str) -> bool:
    """Whether an image was scored, or is to be, under any lot."""
    found = connection.execute(
        "SELECT 1 FROM scores WHERE sha = ?1 UNION ALL SELECT 1 FROM arrivals WHERE sha = ?1 LIMIT 1", (sha,)
    ).fetchone()
    return found is not None


def waiting(connection: sqlite3.Connection, lot: str, *, limit: int = -1) -> list[str]:
    """Images that have arrived for a lot and have no score yet, in the order they came."""
    rows = connection.execute("SELECT sha FROM arrivals WHERE lot = ? ORDER BY rowid LIMIT ?", (lot, limit))
    return [row["sha"] for row in rows]


def add(connection: sqlite3.Connection, sha: str, lot: str, result: dict[str, Any]) -> None:
    """Keep the score of an image under a lot; the first one stays."""
    connection.execute(
        "INSERT OR IGNORE INTO scores (sha, lot, score, threshold, verdict, problem, created) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (sha, lot, result.get("score"), result.get("threshold"), result.get("verdict"), result.get("problem"), now()),
    )
    connection.execute("DELETE FROM arrivals WHERE sha = ? AND lot = ?", (sha, lot))


def review(connection: sqlite3.Connection, score: int, word: Review, operator: str) -> None:
    """Keep that somebody confirmed or overruled a verdict."""
    row = read_score(connection, score)
    if row["verdict"] is None:
        raise ConflictError(f"{row['name']} was not scored, so there is no verdict to {word}.")
    if row["removed"]:
        raise ConflictError(f"{row['name']} was removed, so nobody can look at it and {word} its verdict.")
    detail = {"image": row["name"], "sha256": row["sha"], "verdict": row["verdict"], "score": row["score"]}
    connection.execute(
        "INSERT INTO decisions (at, operator, kind, lot, score, detail) VALUES (?, ?, ?, ?, ?, ?)",
        (now(), operator, word, row["lot"], score, packed(detail)),
    )


def confirmed_good(connection: sqlite3.Connection, lot: str, *, limit: int) -> list[str]:
    """Images, still here, that a person holds to be good: confirmed passes and overruled failures, best first."""
    rows = connection.execute(
        f"SELECT sha FROM ({_LATEST} WHERE scores.lot = ?) WHERE NOT removed AND ((verdict = 'pass' AND decision = "
        "'confirm') OR (verdict = 'fail' AND decision = 'overrule')) ORDER BY score LIMIT ?",
        (lot, limit),
    )
    return [row["sha"] for row in rows]


def final_verdict(row: Row) -> str:
    """What counts in the end: the verdict, turned round if somebody overruled it."""
    if row["verdict"] is None:
        return "not scored"
    if row["decision"] == "overrule":
        return "pass" if row["verdict"] == "fail" else "fail"
    return str(row["verdict"])


def as_csv(rows: list[Row]) -> str:
    """One line per image; names that a spreadsheet would run as a formula are disarmed."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(
        (
            "image",
            "sha256",
            "lot",
            "score",
            "threshold",
            "verdict",
            "decision",
            "operator",
            "decided",
            "final",
            "problem",
        )
    )
    for row in rows:
        number = "" if row["score"] is None else f"{row['score']:.6g}"
        limit = "" if row["threshold"] is None else f"{row['threshold']:.6g}"
        texts = (row["verdict"], row["decision"], row["operator"], row["at"], final_verdict(row), row["problem"])
        cells = [_disarmed(row["name"]), row["sha"], _disarmed(row["lot"]), number, limit]
        writer.writerow([*cells, *(_disarmed(text or "") for text in texts)])
    return out.getvalue()


def _disarmed(text: str) -> str:
    return f"'{text}" if text[:1] in {"=", "+", "-", "@", "\t"} else text
