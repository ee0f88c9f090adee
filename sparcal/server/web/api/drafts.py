"""A new lot over HTTP: images, marks, checks, calibration, the decision."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool

from sparcal.server.data import drafts, jobs, lots, retention, scores
from sparcal.server.data.database import unpacked
from sparcal.server.data.lot_decisions import decide_draft
from sparcal.server.refusals import ConflictError
from sparcal.server.web.api.jobs import job_answer
from sparcal.server.web.api.models.drafts import (
    CalibrationBody,
    DraftAnswer,
    DraftDecisionBody,
    DraftImage,
    DraftList,
    DraftSummary,
    FromConfirmedBody,
    MarksBody,
    NewLotBody,
    UploadAnswer,
)
from sparcal.server.web.api.models.fields import RecordId, ShaPath
from sparcal.server.web.api.models.jobs import JobStarted
from sparcal.server.web.context import Context, Here

router = APIRouter(tags=["new lot"])
FileName = Annotated[str, Query(max_length=500, description="The file's name, for people only.")]
BINARY = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


def draft_answer(here: Context, draft: int) -> DraftAnswer:
    """A draft with all that a page shows of it."""
    with here.database.read() as connection:
        row = drafts.read_draft(connection, draft)
        marked = drafts.good(connection, draft)
        checks = drafts.current_checks(row, marked)
        images = [
            DraftImage(
                **{name: image[name] for name in ("sha", "name", "width", "height", "problem")},
                state="removed" if image["state"] in retention.GONE else image["state"],
                good=bool(image["good"]),
                comparison=unpacked(image["comparison"]),
            )
            for image in drafts.images(connection, draft)
        ]
        job = connection.execute(
            "SELECT * FROM jobs WHERE kind = 'calibrate' AND json_extract(subject, '$.draft') = ? "
            "ORDER BY id DESC LIMIT 1",
            (draft,),
        ).fetchone()
        checking = jobs.open_of(connection, "check", {"draft": draft, "images": marked}) is not None
    return DraftAnswer(
        **{name: row[name] for name in ("id", "name", "state", "created")},
        images=images,
        checks=checks,
        checking=checking,
        result=unpacked(row["result"]),
        job=job_answer(job) if job else None,
    )


@router.post("/drafts", status_code=201)
def create_draft(body: NewLotBody, here: Here) -> DraftAnswer:
    """Begin a new lot."""
    lots.require_new(here.station, body.name)
    with here.database.write() as connection:
        draft = drafts.create(connection, body.name)
        if body.images_of is not None:
            drafts.copy_images(connection, body.images_of, draft, limit=here.settings.limits.draft_images)
    return draft_answer(here, draft)


@router.post("/drafts/from-confirmed", status_code=201)
def create_from_confirmed(body: FromConfirmedBody, here: Here) -> DraftAnswer:
    """Begin a new lot with images of an earlier one that a person holds to be good; they still have to be marked."""
    lots.require_new(here.station, body.name)
    with here.database.write() as connection:
        found = [row["sha"] for row in scores.found_good(connection, body.lot, limit=here.settings.limits.draft_images)]
        if not found:
            raise ConflictError(
                "Nobody has found a part of that list good yet, or its picture is gone: judge some first."
            )
        draft = drafts.create(connection, body.name)
        for sha in found:
            drafts.add_image(connection, draft, sha, limit=here.settings.limits.draft_images)
    return draft_answer(here, draft)


@router.get("/drafts")
def list_drafts(here: Here) -> DraftList:
    """Lots in the making, the newest first."""
    names = ("id", "name", "state", "created", "images", "good")
    with here.database.read() as connection:
        rows = drafts.open_drafts(connection)
    return DraftList(drafts=[DraftSummary(**{name: row[name] for name in names}) for row in rows])


@router.get("/drafts/{draft}")
def show_draft(draft: RecordId, here: Here) -> DraftAnswer:
    """A lot in the making."""
    return draft_answer(here, draft)


@router.post("/drafts/{draft}/images", status_code=201, openapi_extra=BINARY)
async def upload_to_draft(draft: RecordId, request: Request, here: Here, name: FileName = "image") -> UploadAnswer:
    """Send one image as the body; it is read by the worker and then shown."""

    def may_add() -> None:
        with here.database.read() as connection:
            drafts.require(drafts.read_draft(connection, draft), "open")

    await run_in_threadpool(may_add)
    stored = await here.store.receive(request.stream(), name=name)

    def keep() -> None:
        with retention.arrival(here.database, here.store, stored) as connection:
            drafts.require_room(connection, draft, stored.sha, limit=here.settings.limits.draft_images)
            retention.admit(connection, here.store, stored)
            drafts.add_image(connection, draft, stored.sha, limit=here.settings.limits.draft_images)
            jobs.enqueue(connection, "read", {})

    await run_in_threadpool(keep)
    return UploadAnswer(sha=stored.sha, name=stored.name)


@router.post("/drafts/{draft}/collect", status_code=202)
def collect_into_draft(draft: RecordId, here: Here) -> JobStarted:
    """Take the images of the watched folder."""
    if here.settings.watch is None:
        raise ConflictError("The station watches no folder: start it with --watch FOLDER.")
    with here.database.write() as connection:
        drafts.require(drafts.read_draft(connection, draft), "open")
        return JobStarted(job=jobs.enqueue(connection, "collect", {"draft": draft}))


@router.delete("/drafts/{draft}/images/{sha}")
def remove_from_draft(draft: RecordId, sha: ShaPath, here: Here) -> DraftAnswer:
    """Take an image out of a draft."""
    with here.database.write() as connection:
        drafts.remove_image(connection, draft, sha)
    return draft_answer(here, draft)


@router.put("/drafts/{draft}/good")
def mark_good(draft: RecordId, body: MarksBody, here: Here) -> DraftAnswer:
    """Say which images are verified good; the checks run on them at once."""
    with here.database.write() as connection:
        drafts.mark(connection, draft, body.images)
    return draft_answer(here, draft)


@router.post("/drafts/{draft}/calibrate", status_code=202)
def calibrate_draft(draft: RecordId, body: CalibrationBody, here: Here) -> JobStarted:
    """Calibrate the lot on its good images; the station goes on with the old reference until somebody accepts."""
    with here.database.write() as connection:
        return JobStarted(job=drafts.start(connection, draft, body.images, body.model_dump(exclude={"images"})))


@router.post("/drafts/{draft}/decision")
def decide_on_draft(draft: RecordId, body: DraftDecisionBody, here: Here) -> DraftAnswer:
    """Accept the lot, keep the old reference, or discard the draft."""
    with here.database.read() as connection:
        drafts.read_draft(connection, draft)
    decide_draft(
        here.database,
        here.station,
        draft,
        body.decision,
        operator=body.operator,
        threshold=body.threshold,
        reason=body.reason,
    )
    return draft_answer(here, draft)
