"""Judging again: what another reference has judged is judged by the active one too; both verdicts stay."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from sqlite3 import Row

from sparcal.files.json_record import now
from sparcal.server.data import jobs, scores
from sparcal.server.data.database import packed
from sparcal.server.refusals import ConflictError

_COULD = (
    "images.state = 'ready' "
    "AND NOT EXISTS (SELECT 1 FROM scores AS new WHERE new.lot = :target AND new.sha = images.sha) "
    "AND NOT EXISTS (SELECT 1 FROM arrivals WHERE arrivals.lot = :target AND arrivals.sha = images.sha)"
)
# Names in order, each found by the index from the one before: no page reads every count there ever was.
_REFERENCES = """
WITH RECURSIVE known (lot) AS (SELECT min(lot) FROM tallies UNION ALL
    SELECT (SELECT min(lot) FROM tallies WHERE tallies.lot > known.lot) FROM known WHERE known.lot IS NOT NULL)
SELECT lot FROM known WHERE lot IS NOT NULL
ORDER BY (SELECT max(quarter) FROM tallies WHERE tallies.lot = known.lot) DESC, lot DESC LIMIT :limit
"""


@dataclass(frozen=True)
class ChosenParts:
    """Which of the images that a reference has judged are meant.

    Args:
        since: only what was judged at that time or later.
        which: only what this filter of the list shows.
        search: only images with this in their name.
        shas: only these images.
        without: not these images.
    """

    source: str
    since: str = ""
    which: scores.ScoreFilter = "all"
    search: str = ""
    shas: Collection[str] | None = None
    without: Collection[str] = ()


def not_judged_yet(connection: sqlite3.Connection, meant: ChosenParts, target: str) -> list[str]:
    """Which of these images are still here and were not judged by `target`, in the order they were judged."""
    chosen, values = scores.narrowed(meant.source, meant.which, meant.search)
    rows = connection.execute(
        f"SELECT scores.sha {scores.LISTED_SCORES} WHERE {chosen} AND scores.created >= :since AND {_COULD} ORDER BY scores.id",
        values | {"since": meant.since, "target": target},
    )
    only, without = None if meant.shas is None else set(meant.shas), set(meant.without)
    return [row["sha"] for row in rows if (only is None or row["sha"] in only) and row["sha"] not in without]


def could_judge(connection: sqlite3.Connection, shas: Iterable[str], target: str) -> set[str]:
    """Which of these images are still here and were not judged by `target`."""
    rows = connection.execute(
        f"SELECT sha FROM images WHERE sha IN (SELECT value FROM json_each(:shas)) AND {_COULD}",
        {"shas": json.dumps(list(shas)), "target": target},
    )
    return {row["sha"] for row in rows}


def said_beside(connection: sqlite3.Connection, shas: Iterable[str], lot: str) -> dict[str, Row]:
    """What the latest reference besides `lot` said about each of these images that another one has judged."""
    rows = connection.execute(
        "SELECT sha, lot, verdict, max(id) FROM scores WHERE sha IN (SELECT value FROM json_each(:shas)) "
        "AND lot <> :lot GROUP BY sha",
        {"shas": json.dumps(list(shas)), "lot": lot},
    )
    return {row["sha"]: row for row in rows}


def references(connection: sqlite3.Connection, *, limit: int) -> list[str]:
    """What has judged images, the latest first; the empty name is the station's own reference."""
    return [row["lot"] for row in connection.execute(_REFERENCES, {"limit": limit})]


def judge_again(connection: sqlite3.Connection, meant: ChosenParts, target: str, *, operator: str) -> tuple[int, int]:
    """Have `target` judge what another reference has judged; how many images that is, and the number of the job."""
    if meant.source == target:
        raise ConflictError("These images were judged by what is active now: accept another lot first.")
    chosen = not_judged_yet(connection, meant, target)
    if not chosen:
        raise ConflictError("No image is left to be judged again: all were, or their pictures were removed.")
    for sha in chosen:
        scores.arrive(connection, sha, target)
    connection.execute(
        "INSERT INTO decisions (at, operator, kind, lot, detail) VALUES (?, ?, 'judge again', ?, ?)",
        (now(), operator, target, packed({"images": len(chosen), "from": meant.source})),
    )
    return len(chosen), jobs.enqueue(connection, "score", {"lot": target})
