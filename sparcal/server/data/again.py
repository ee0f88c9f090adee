"""Judging again: what another reference has judged is judged by the active one too; both verdicts stay."""

from __future__ import annotations

import sqlite3

from sparcal.files.json_record import now
from sparcal.server.data import jobs, scores
from sparcal.server.data.database import packed
from sparcal.server.refusals import ConflictError

_JUDGED = """
SELECT scores.sha FROM scores JOIN images USING (sha) WHERE scores.lot = :source AND images.state = 'ready'
AND scores.created >= :since AND NOT EXISTS (SELECT 1 FROM scores AS new WHERE new.lot = :target AND new.sha = scores.sha)
AND NOT EXISTS (SELECT 1 FROM arrivals WHERE arrivals.lot = :target AND arrivals.sha = scores.sha) ORDER BY scores.id
"""


def not_judged_yet(connection: sqlite3.Connection, source: str, target: str, *, since: str = "") -> list[str]:
    """Images that `source` has judged since then, that are still here, and that `target` has not judged."""
    rows = connection.execute(_JUDGED, {"source": source, "target": target, "since": since})
    return [row["sha"] for row in rows]


def judge_again(
    connection: sqlite3.Connection,
    source: str,
    target: str,
    *,
    operator: str,
    since: str = "",
    shas: list[str] | None = None,
) -> tuple[int, int]:
    """Have `target` judge what `source` has judged; how many images that is, and the number of the job.

    Args:
        since: only what was judged at that time or later.
        shas: only these images.
    """
    if source == target:
        raise ConflictError("These images were judged by what is active now: accept another lot first.")
    chosen = [
        sha for sha in not_judged_yet(connection, source, target, since=since) if shas is None or sha in set(shas)
    ]
    if not chosen:
        raise ConflictError("No image is left to be judged again: all were, or their pictures were removed.")
    for sha in chosen:
        scores.arrive(connection, sha, target)
    connection.execute(
        "INSERT INTO decisions (at, operator, kind, lot, detail) VALUES (?, ?, 'judge again', ?, ?)",
        (now(), operator, target, packed({"images": len(chosen), "from": source})),
    )
    return len(chosen), jobs.enqueue(connection, "score", {"lot": target})
