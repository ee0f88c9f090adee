"""The queue over HTTP: see it, cancel, try again."""

from __future__ import annotations

from datetime import UTC, datetime
from sqlite3 import Row

from fastapi import APIRouter

from sparcal.server.data import drafts, jobs
from sparcal.server.data.database import unpacked
from sparcal.server.data.room import has_room
from sparcal.server.refusals import ConflictError, NotFoundError
from sparcal.server.sentences import DISK_FULL
from sparcal.server.web.api.models.fields import RecordId
from sparcal.server.web.api.models.jobs import JobAnswer, JobList
from sparcal.server.web.context import Here

router = APIRouter(tags=["jobs"])
JOB_TITLES = {
    "read": "Reading images",
    "collect": "Taking images from the watched folder",
    "check": "Checking the good images",
    "calibrate": "Calibrating the lot",
    "fit": "Adding good parts to the station",
    "score": "Scoring images",
}
PICTURES_FOLLOW = "Drawing parts before and after"  # while the lot can be decided on already


def job_answer(row: Row, *, held: bool = False) -> JobAnswer:
    """A job as the API gives it.

    Args:
        held: whether the worker waits for room on the disk.
    """
    kept = {
        name: row[name] for name in ("id", "kind", "state", "done", "total", "message", "created", "started", "ended")
    }
    if held and row["state"] == "running":
        kept |= {"state": "held", "message": DISK_FULL}
    return JobAnswer(
        **kept,
        title=_title(row),
        draft=unpacked(row["subject"]).get("draft"),
        remaining_s=_remaining(row),
    )


def _title(row: Row) -> str:
    if row["kind"] == "calibrate" and row["state"] == "running" and row["done"] >= drafts.CALIBRATION_STEPS:
        return PICTURES_FOLLOW
    return JOB_TITLES[row["kind"]]


EVEN_STEPS = 10  # from so many on a step is an image, and takes as long as the others


def _remaining(row: Row) -> float | None:
    """As long per step as the steps that were done since it began, or went on; those of a calibration are too uneven."""
    since = row["done"] - row["before"]
    if row["state"] != "running" or not row["started"] or since <= 0 or row["done"] >= row["total"]:
        return None
    if row["total"] < EVEN_STEPS or row["kind"] == "calibrate":
        return None
    taken = (datetime.now(UTC) - datetime.fromisoformat(row["started"])).total_seconds()
    return float(round(taken / since * (row["total"] - row["done"]), 1))


@router.get("/jobs")
def list_jobs(here: Here) -> JobList:
    """Everything that runs or waits, then the latest that are over."""
    with here.database.read() as connection:
        rows = jobs.recent(connection)
    held = not has_room(here.store.folder)
    return JobList(jobs=[job_answer(row, held=held) for row in rows])


@router.post("/jobs/{job}/cancel")
def cancel_job(job: RecordId, here: Here) -> JobList:
    """Take a job out of the queue, or stop it."""
    with here.database.write() as connection:
        _require(connection.execute("SELECT 1 FROM jobs WHERE id = ?", (job,)).fetchone(), job)
        if not jobs.cancel(connection, job):
            raise ConflictError(f"Job {job} is over already, so it cannot be cancelled.")
    return list_jobs(here)


@router.post("/jobs/{job}/retry")
def retry_job(job: RecordId, here: Here) -> JobList:
    """Queue a job again that failed, was cancelled or was interrupted."""
    with here.database.write() as connection:
        _require(connection.execute("SELECT 1 FROM jobs WHERE id = ?", (job,)).fetchone(), job)
        if not jobs.retry(connection, job):
            raise ConflictError(f"Job {job} has not failed, so there is nothing to try again.")
    return list_jobs(here)


def _require(found: Row | None, job: int) -> None:
    if found is None:
        raise NotFoundError(f"There is no job {job}.")
