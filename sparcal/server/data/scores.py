"""Scored images and what people found: the latest finding counts, and every one is kept."""

from __future__ import annotations

import csv
import io
import sqlite3
from sqlite3 import Row
from typing import Any, Literal

from sparcal.files.json_record import now
from sparcal.files.names import disarmed
from sparcal.server.data.database import packed
from sparcal.server.refusals import ConflictError, NotFoundError

PartFinding = Literal["good", "defective"]
ScoreFilter = Literal["all", "open", "fail", "pass", "overruled", "error"]
ScoreOrder = Literal["newest", "worst"]

# `decision` says how the finding stands to the verdict: confirm or overrule. That is how it has always been kept.
LISTED_SCORES = (
    "FROM scores JOIN images USING (sha) LEFT JOIN decisions AS decision ON "
    "decision.id = (SELECT max(id) FROM decisions WHERE decisions.score = scores.id) "
)
_LATEST = (
    "SELECT scores.*, images.name, images.width, images.height, images.kind, "
    "images.state IN ('leaving', 'removed') AS removed, decision.kind AS decision, "
    f"decision.operator, decision.at {LISTED_SCORES}"
)
_FILTERS: dict[ScoreFilter, str] = {
    "all": "",
    "open": " AND decision.kind IS NULL AND scores.problem IS NULL",
    "fail": " AND scores.verdict = 'fail'",
    "pass": " AND scores.verdict = 'pass'",
    "overruled": " AND decision.kind = 'overrule'",
    "error": " AND scores.problem IS NOT NULL",
}
_ORDERS: dict[ScoreOrder, str] = {
    "newest": "scores.id DESC",
    "worst": "scores.problem IS NULL, scores.score DESC, scores.id",
}
_COLUMNS = (
    "image", "sha256", "lot", "score", "threshold", "verdict", "finding", "operator", "decided", "final", "problem",
)  # fmt: skip


def read_scores(
    connection: sqlite3.Connection,
    lot: str,
    *,
    order: ScoreOrder = "worst",
    which: ScoreFilter = "all",
    search: str = "",
    limit: int = 100,
    offset: int = 0,
) -> list[Row]:
    """Scores of a lot: the newest first, or the most anomalous, after images that could not be scored.

    Args:
        search: part of an image's name; empty means all.
        limit: -1 for all.
    """
    chosen, values = narrowed(lot, which, search)
    return connection.execute(
        f"{_LATEST} WHERE {chosen} ORDER BY {_ORDERS[order]} LIMIT :limit OFFSET :offset",
        values | {"limit": limit, "offset": offset},
    ).fetchall()


def narrowed(lot: str, which: ScoreFilter, search: str) -> tuple[str, dict[str, Any]]:
    """The condition on listed scores that a lot, a filter and a search make, and its values."""
    named = "" if not search else " AND images.name LIKE :search ESCAPE '\\'"
    return f"scores.lot = :lot{_FILTERS[which]}{named}", {"lot": lot, "search": f"%{_literal(search)}%"}


def read_score(connection: sqlite3.Connection, score: int) -> Row:
    """One score, or a NotFoundError."""
    row: Row | None = connection.execute(f"{_LATEST} WHERE scores.id = ?", (score,)).fetchone()
    if row is None:
        raise NotFoundError(f"There is no score {score}.")
    return row


def other_scores(connection: sqlite3.Connection, row: Row) -> list[Row]:
    """What other references said about the same image, the latest first."""
    query = f"{_LATEST} WHERE scores.sha = ? AND scores.id <> ? ORDER BY scores.id DESC"
    return connection.execute(query, (row["sha"], row["id"])).fetchall()


def counts(connection: sqlite3.Connection, lot: str) -> dict[str, int]:
    """How many images of a lot passed, failed, could not be scored, and were decided on."""
    row = connection.execute(
        "SELECT coalesce(sum(passed + failed + errors), 0) AS scored, coalesce(sum(passed), 0) AS passed, "
        "coalesce(sum(failed), 0) AS failed, coalesce(sum(errors), 0) AS errors FROM tallies WHERE lot = ?",
        (lot,),
    ).fetchone()
    words = connection.execute(
        "SELECT coalesce(sum(kind = 'confirm'), 0) AS confirmed, coalesce(sum(kind = 'overrule'), 0) AS overruled "
        "FROM (SELECT kind, max(id) FROM decisions WHERE lot = ? AND score IS NOT NULL GROUP BY score)",
        (lot,),
    ).fetchone()
    return dict(row) | dict(words)


def arrive(connection: sqlite3.Connection, sha: str, lot: str) -> None:
    """Note that an image is to be scored under a lot; an earlier score stays, and only its pictures are made again."""
    connection.execute("INSERT OR IGNORE INTO arrivals (sha, lot) VALUES (?, ?)", (sha, lot))


def known(connection: sqlite3.Connection, sha: str, lot: str) -> bool:
    """Whether an image was scored under a lot."""
    found = connection.execute("SELECT 1 FROM scores WHERE sha = ? AND lot = ?", (sha, lot)).fetchone()
    return found is not None


def ever_judged(connection: sqlite3.Connection, sha: str) -> bool:
    """Whether any reference has judged an image."""
    return connection.execute("SELECT 1 FROM scores WHERE sha = ? LIMIT 1", (sha,)).fetchone() is not None


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


def review(connection: sqlite3.Connection, score: int, finding: PartFinding, operator: str) -> None:
    """Keep that somebody looked at a part and found it good or defective."""
    row = read_score(connection, score)
    if row["verdict"] is None:
        raise ConflictError(f"{row['name']} was not scored, so there is no verdict to decide on.")
    if row["removed"]:
        raise ConflictError(f"{row['name']} was removed, so nobody can look at it and decide.")
    kind = "confirm" if (finding == "good") == (row["verdict"] == "pass") else "overrule"
    detail = {"image": row["name"], "sha256": row["sha"], "verdict": row["verdict"], "score": row["score"]}
    connection.execute(
        "INSERT INTO decisions (at, operator, kind, lot, score, detail) VALUES (?, ?, ?, ?, ?, ?)",
        (now(), operator, kind, row["lot"], score, packed(detail)),
    )


def found_good(connection: sqlite3.Connection, lot: str, *, limit: int = -1, overruled: bool = True) -> list[Row]:
    """Images, still here, that a person found good; the best first.

    Args:
        overruled: also those that the station had failed.
    """
    also = " OR (verdict = 'fail' AND decision = 'overrule')" if overruled else ""
    return connection.execute(
        f"SELECT * FROM ({_LATEST} WHERE scores.lot = ?) WHERE NOT removed AND "
        f"((verdict = 'pass' AND decision = 'confirm'){also}) ORDER BY score LIMIT ?",
        (lot, limit),
    ).fetchall()


def finding_of(row: Row) -> PartFinding | None:
    """What the last person who looked at a part found."""
    if row["decision"] is None:
        return None
    return "good" if final_verdict(row) == "pass" else "defective"


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
    writer.writerow(_COLUMNS)
    for row in rows:
        number = "" if row["score"] is None else f"{row['score']:.6g}"
        limit = "" if row["threshold"] is None else f"{row['threshold']:.6g}"
        texts = (row["verdict"], finding_of(row), row["operator"], row["at"], final_verdict(row), row["problem"])
        cells = [disarmed(row["name"]), row["sha"], disarmed(row["lot"]), number, limit]
        writer.writerow([*cells, *(disarmed(text or "") for text in texts)])
    return out.getvalue()


def _literal(text: str) -> str:
    """A text for LIKE in which no letter has a special meaning."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
