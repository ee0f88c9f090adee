"""A lot in the making: its images, which of them are verified good, what the checks say, what was decided.

States: open -> calibrating -> calibrated -> accepted | kept | discarded. A decided draft never changes.
"""

from __future__ import annotations

import sqlite3
from sqlite3 import Row
from typing import Any, Literal

from sparcal.files.json_record import now
from sparcal.server.data import jobs
from sparcal.server.data.database import packed, unpacked
from sparcal.server.refusals import ConflictError, NotFoundError

FEWEST, MOST = 2, 32  # as the station takes them; the paper measured 2 to 8
CALIBRATION_STEPS = 5  # of a calibration, as Station.calibrate counts them; then its parts are shown before and after
DraftDecision = Literal["accept", "keep", "discard"]
DECIDED: dict[DraftDecision, str] = {"accept": "accepted", "keep": "kept", "discard": "discarded"}


def create(connection: sqlite3.Connection, name: str) -> int:
    """A new draft; two drafts of one name may not be open at once."""
    if connection.execute(
        "SELECT 1 FROM drafts WHERE name = ? AND state IN ('open', 'calibrating', 'calibrated')", (name,)
    ).fetchone():
        raise ConflictError(f"A draft for lot {name!r} is open already: finish or discard it, or use another name.")
    added = connection.execute("INSERT INTO drafts (name, state, created) VALUES (?, 'open', ?)", (name, now()))
    return int(added.lastrowid or 0)


def read_draft(connection: sqlite3.Connection, draft: int) -> Row:
    """The draft, or a NotFoundError."""
    row: Row | None = connection.execute("SELECT * FROM drafts WHERE id = ?", (draft,)).fetchone()
    if row is None:
        raise NotFoundError(f"There is no draft {draft}.")
    return row


def open_drafts(connection: sqlite3.Connection) -> list[Row]:
    """Every draft that is not decided yet, the newest first, with how many images it holds and how many are good."""
    return connection.execute(
        "SELECT drafts.*, count(draft_images.sha) AS images, coalesce(sum(draft_images.good), 0) AS good FROM drafts "
        "LEFT JOIN draft_images ON draft_images.draft = drafts.id "
        "WHERE drafts.state IN ('open', 'calibrating', 'calibrated') GROUP BY drafts.id ORDER BY drafts.id DESC"
    ).fetchall()


def require(row: Row, *states: str) -> None:
    """A ConflictError unless the draft is in one of these states."""
    if row["state"] not in states:
        raise ConflictError(f"The draft for lot {row['name']!r} is {row['state']}, so this cannot be done any more.")


def require_room(connection: sqlite3.Connection, draft: int, sha: str, *, limit: int) -> None:
    """A ConflictError unless this image can be put into this draft."""
    require(read_draft(connection, draft), "open")
    count = connection.execute("SELECT count(*) AS n FROM draft_images WHERE draft = ?", (draft,)).fetchone()["n"]
    known = connection.execute("SELECT 1 FROM draft_images WHERE draft = ? AND sha = ?", (draft, sha)).fetchone()
    if count >= limit and not known:
        raise ConflictError(f"A draft holds at most {limit} images, got one more: 8 good ones are usually enough.")


def add_image(connection: sqlite3.Connection, draft: int, sha: str, *, limit: int) -> None:
    """Put an image into a draft; putting it in twice changes nothing."""
    require_room(connection, draft, sha, limit=limit)
    connection.execute("INSERT OR IGNORE INTO draft_images (draft, sha) VALUES (?, ?)", (draft, sha))


def copy_images(connection: sqlite3.Connection, earlier: int, draft: int, *, limit: int) -> None:
    """Put the images of an earlier draft that can still be looked at into another one, none of them marked."""
    read_draft(connection, earlier)
    for image in images(connection, earlier):
        if image["state"] not in ("refused", "removed"):
            add_image(connection, draft, image["sha"], limit=limit)


def remove_image(connection: sqlite3.Connection, draft: int, sha: str) -> None:
    """Take an image out of a draft; the file stays."""
    require(read_draft(connection, draft), "open")
    connection.execute("DELETE FROM draft_images WHERE draft = ? AND sha = ?", (draft, sha))
    _recheck(connection, draft)


def mark(connection: sqlite3.Connection, draft: int, shas: list[str]) -> None:
    """Say which images of a draft are verified good, and have the checks run on them."""
    require(read_draft(connection, draft), "open")
    held = {row["sha"] for row in images(connection, draft) if row["state"] != "refused"}
    if len(set(shas)) > MOST:
        raise ConflictError(f"A lot takes {FEWEST} to {MOST} good images, got {len(set(shas))}: unmark some.")
    if not set(shas) <= held:
        raise NotFoundError("An image that was marked is not a readable one of this draft: reload the page.")
    connection.execute("UPDATE draft_images SET good = 0 WHERE draft = ?", (draft,))
    connection.executemany(
        "UPDATE draft_images SET good = 1 WHERE draft = ? AND sha = ?", [(draft, sha) for sha in set(shas)]
    )
    _recheck(connection, draft)


def images(connection: sqlite3.Connection, draft: int) -> list[Row]:
    """The images of a draft, in the order they came."""
    return connection.execute(
        "SELECT images.*, good, comparison FROM draft_images JOIN images USING (sha) WHERE draft = ? "
        "ORDER BY draft_images.rowid",
        (draft,),
    ).fetchall()


def good(connection: sqlite3.Connection, draft: int) -> list[str]:
    """Hashes of the verified good images, sorted, because their order means nothing."""
    rows = connection.execute("SELECT sha FROM draft_images WHERE draft = ? AND good = 1 ORDER BY sha", (draft,))
    return [row["sha"] for row in rows]


def start(connection: sqlite3.Connection, draft: int, seen: list[str], request: dict[str, Any]) -> int:
    """Send a draft to calibration; the number of its job.

    Args:
        seen: the images that the operator saw marked; others may have been marked elsewhere meanwhile.
    """
    row = read_draft(connection, draft)
    require(row, "open")
    marked = good(connection, draft)
    if sorted(set(seen)) != marked:
        raise ConflictError("Other images were marked meanwhile: look at them again, and then calibrate.")
    count = len(marked)
    if not FEWEST <= count <= MOST:
        raise ConflictError(f"Calibration takes {FEWEST} to {MOST} verified good images, got {count}: mark them first.")
    _drop_checks(connection, draft)
    connection.execute("UPDATE drafts SET state = 'calibrating' WHERE id = ?", (draft,))
    return jobs.enqueue(connection, "calibrate", {"draft": draft, **request})


def close_draft(connection: sqlite3.Connection, draft: int, outcome: DraftDecision) -> Row:
    """Close a draft with one of the three outcomes, once."""
    row = read_draft(connection, draft)
    require(row, "calibrated", *(["open"] if outcome == "discard" else []))
    connection.execute("UPDATE drafts SET state = ? WHERE id = ?", (DECIDED[outcome], draft))
    return row


def keep_checks(connection: sqlite3.Connection, draft: int, shas: list[str], checks: dict[str, Any]) -> None:
    """Keep what the checks said about these images, unless others are marked by now."""
    if good(connection, draft) == sorted(shas):
        connection.execute(
            "UPDATE drafts SET checked = ?, checks = ? WHERE id = ?", (packed(sorted(shas)), packed(checks), draft)
        )


def current_checks(row: Row, marked: list[str]) -> Any:
    """What the checks said, if they were about the images that are marked now."""
    return unpacked(row["checks"]) if unpacked(row["checked"]) == marked else None


def _recheck(connection: sqlite3.Connection, draft: int) -> None:
    _drop_checks(connection, draft)
    marked = good(connection, draft)
    if len(marked) >= FEWEST and current_checks(read_draft(connection, draft), marked) is None:
        jobs.enqueue(connection, "check", {"draft": draft, "images": marked})


def _drop_checks(connection: sqlite3.Connection, draft: int) -> None:
    """Cancel checks of images that are no longer marked."""
    connection.execute(
        "DELETE FROM jobs WHERE kind = 'check' AND state = 'queued' AND json_extract(subject, '$.draft') = ?", (draft,)
    )
