"""Decisions about lots: accept, keep the old reference, discard, roll back.

A decision is one transaction: it is refused, or it is in the database and in the station's files before anybody is
told so. If the process dies in between, the transaction is undone and the operator decides again.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

from sparcal.errors import DataError
from sparcal.files.json_record import now
from sparcal.server.data import drafts
from sparcal.server.data.alarms import end_alarms
from sparcal.server.data.database import Database, packed, unpacked
from sparcal.server.data.lots import require_known
from sparcal.server.refusals import ConflictError
from sparcal.station.folder import StationFolder

if TYPE_CHECKING:
    from sparcal.station.station import Station


def record(
    connection: sqlite3.Connection, kind: str, lot: str, operator: str, detail: dict[str, Any] | None = None
) -> None:
    """Add a decision about a lot."""
    connection.execute(
        "INSERT INTO decisions (at, operator, kind, lot, detail) VALUES (?, ?, ?, ?, ?)",
        (now(), operator, kind, lot, packed(detail or {})),
    )


def activate(
    database: Database, station: StationFolder, lot: str | None, *, operator: str, reason: str | None = None
) -> None:
    """Have a lot judge from now on, or the station's own reference (None).

    Args:
        reason: why a lot judges although a check said stop.
    """
    stopped = lot is not None and require_known(station, lot)["verdict"] == "stop"
    opened = _open(station)
    with database.write() as connection:
        if connection.execute("SELECT 1 FROM decisions WHERE kind = 'discard' AND lot = ?", (lot,)).fetchone():
            raise ConflictError(f"Lot {lot!r} was discarded, so it cannot judge: calibrate a new one.")
        detail = {"from": station.active() or "", **_reason(reason, stopped=stopped)}
        record(connection, "roll back", lot or "", operator, detail)
        end_alarms(connection)
        opened.activate(lot, operator=operator, reason=reason)


def decide_draft(
    database: Database,
    station: StationFolder,
    draft: int,
    outcome: drafts.DraftDecision,
    *,
    operator: str,
    threshold: float | None = None,
    reason: str | None = None,
) -> None:
    """Accept a calibrated lot, keep the old reference, or discard the draft.

    Args:
        reason: why the lot is accepted although a check said stop.
    """
    if threshold is not None and outcome != "accept":
        raise DataError("A threshold can be set by hand only when a lot is accepted: leave it out.")
    opened = _open(station)
    with database.write() as connection:
        row = drafts.close_draft(connection, draft, outcome)
        result = unpacked(row["result"]) or {}
        stopped = outcome == "accept" and any(check["verdict"] == "stop" for check in result.get("checks", []))
        detail = {"draft": draft, "instead of": station.active() or "", **_reason(reason, stopped=stopped)}
        if threshold is not None:
            detail["threshold"] = threshold
        record(connection, outcome, row["name"], operator, detail)
        if outcome != "accept":
            return
        end_alarms(connection)
        if threshold is not None and threshold != result.get("threshold"):
            opened.set_threshold(row["name"], image=threshold, operator=operator)
        opened.activate(row["name"], operator=operator, reason=reason)


def _reason(reason: str | None, *, stopped: bool) -> dict[str, str]:
    if not stopped:
        return {}
    if not reason:
        raise ConflictError("A check says stop, so this lot judges only if somebody gives a reason: write it down.")
    return {"reason": reason}


def _open(station: StationFolder) -> Station:
    """The station for decisions, opened before a transaction begins: the first time loads torch."""
    from sparcal.station.station import Station

    return Station.open(station.root)
