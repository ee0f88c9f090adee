"""Shifts that the station has noticed, over HTTP: see them, begin a lot from their parts, dismiss them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from sparcal.server.data import alarms, drafts, lots
from sparcal.server.refusals import ConflictError
from sparcal.server.web.api.drafts import draft_answer
from sparcal.server.web.api.models.alarms import AlarmAnswer, AlarmList, DismissBody
from sparcal.server.web.api.models.drafts import DraftAnswer, NewDraftBody
from sparcal.server.web.api.models.fields import RecordId
from sparcal.server.web.context import Here

router = APIRouter(tags=["alarms"])


@router.get("/alarms")
def list_alarms(here: Here, limit: Annotated[int, Query(ge=1, le=500)] = 50) -> AlarmList:
    """Every shift that was noticed, the latest first."""
    with here.database.read() as connection:
        return AlarmList(alarms=[AlarmAnswer(**one) for one in alarms.latest_alarms(connection, limit=limit)])


@router.post("/alarms/{alarm}/dismiss")
def dismiss(alarm: RecordId, body: DismissBody, here: Here) -> AlarmAnswer:
    """Hold the parts to be in order as they look now; later ones are compared with them."""
    with here.database.write() as connection:
        alarms.dismiss_alarm(connection, alarm, operator=body.operator, reason=body.reason)
        return AlarmAnswer(**alarms.alarm_facts(connection, alarms.read_alarm(connection, alarm)))


@router.post("/alarms/{alarm}/draft", status_code=201)
def draft_from_alarm(alarm: RecordId, body: NewDraftBody, here: Here) -> DraftAnswer:
    """Begin a new lot with the latest parts that look different; somebody still has to look which of them are good."""
    lots.require_new(here.station, body.name)
    with here.database.write() as connection:
        row = alarms.read_alarm(connection, alarm)
        found = alarms.parts_since(connection, row["lot"], row["first"])
        if not found:
            raise ConflictError("No picture of these parts is left: begin a new lot with other images.")
        draft = drafts.create(connection, body.name)
        alarms.note_draft(connection, alarm, draft)
        for part in found:
            drafts.add_image(connection, draft, part["sha"], limit=here.settings.limits.draft_images)
    return draft_answer(here, draft)
