"""Lots over HTTP: the state at a glance, list, detail, comparison, roll back, audit trail."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request

from sparcal.server.data import alarms, audit, drafts, lots, scores
from sparcal.server.data.database import current_revision
from sparcal.server.data.kept_promise import broken_promise
from sparcal.server.data.lot_decisions import activate
from sparcal.server.data.room import has_room
from sparcal.server.sentences import DISK_FULL
from sparcal.server.web.api.jobs import job_answer
from sparcal.server.web.api.judge import watching_answer
from sparcal.server.web.api.models.alarms import AlarmAnswer
from sparcal.server.web.api.models.fields import LARGEST_ID
from sparcal.server.web.api.models.lots import (
    ActivationBody,
    ActiveLot,
    AuditTrail,
    LotComparison,
    LotComparisonRow,
    LotDetail,
    LotList,
    LotSummary,
    SessionAnswer,
    StateAnswer,
)
from sparcal.server.web.context import Here
from sparcal.server.web.errors import names_of

router = APIRouter(tags=["lots"])
LotQuery = Annotated[str, Query(min_length=1, max_length=200, description="A lot's name.")]


@router.get("/session", tags=["station"])
def session(request: Request) -> SessionAnswer:
    """What a client without a token needs to make changes."""
    return SessionAnswer(csrf=request.state.csrf)


@router.get("/state", tags=["station"])
def state(here: Here) -> StateAnswer:
    """The station at a glance."""
    station = here.station.read_station()
    active = lots.active_lot(here.station)
    held = not has_room(here.store.folder)
    with here.database.read() as connection:
        current = connection.execute("SELECT * FROM jobs WHERE state = 'running' LIMIT 1").fetchone()
        queued = connection.execute("SELECT count(*) AS n FROM jobs WHERE state = 'queued'").fetchone()["n"]
        revision = current_revision(connection)
        name = active["name"]
        counts = here.known.answer(connection, ("counts", name), lambda: scores.counts(connection, name))
        open_drafts = len(drafts.open_drafts(connection))
        folder = here.settings.watch
        watch = None if folder is None else watching_answer(folder, connection)
        alarm = alarms.open_alarm(connection, here.station, name)
        promise = broken_promise(connection, here.station, name, here.known)
    return StateAnswer(
        station=names_of(here.settings.station),
        active=ActiveLot(**active),
        running=int(current is not None),
        queued=queued,
        current=job_answer(current, held=held) if current else None,
        counts=counts,
        watch=watch,
        drafts=open_drafts,
        alarm=None if alarm is None else AlarmAnswer(**alarm),
        promise=promise,
        monitored=alarms.monitored(here.station, name),
        trouble=DISK_FULL if held else None,
        revision=revision,
        **lots.station_facts(here.station, station),
    )


@router.get("/lots")
def list_lots(here: Here) -> LotList:
    """All lots, newest first."""
    with here.database.read() as connection:
        facts = lots.LotHistory.of(connection, here.station)
    found = [LotSummary(**lots.summary(here.station, record, facts)) for record in here.station.read_lots()]
    return LotList(active=here.station.active() or "", lots=found[::-1])


@router.get("/lots/show")
def show_lot(lot: LotQuery, here: Here) -> LotDetail:
    """What one lot is made of, and how strongly it evens out each place of the image."""
    with here.database.read() as connection:
        facts = lots.LotHistory.of(connection, here.station)
    return LotDetail(**lots.detail(here.station, lots.require_known(here.station, lot), facts))


@router.get("/lots/compare")
def compare_lots(first: LotQuery, second: LotQuery, here: Here) -> LotComparison:
    """Two lots side by side."""
    return LotComparison(rows=[LotComparisonRow(**row) for row in lots.lot_differences(here.station, first, second)])


@router.post("/lots/activate")
def activate_lot(body: ActivationBody, here: Here) -> StateAnswer:
    """Have another lot judge from now on, or the station's own reference."""
    activate(here.database, here.station, body.lot, operator=body.operator, reason=body.reason)
    return state(here)


@router.get("/audit")
def audit_trail(here: Here, limit: Annotated[int, Query(ge=1, le=LARGEST_ID)] = 200) -> AuditTrail:
    """Who did what, newest first."""
    return AuditTrail(entries=audit.trail(here.database, here.station, limit=limit))
