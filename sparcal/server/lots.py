"""Lots as the pages need them, read from the station's own files, and the decisions that are taken about them.

A decision is one transaction: it is refused, or it is in the database and in the station's files before anybody is
told so. If the process dies in between, the transaction is taken back and the operator decides again.
"""

from __future__ import annotations

import hashlib
import sqlite3
from typing import Any

from sparcal.errors import DataError
from sparcal.server import drafts
from sparcal.server.database import Database, now, packed, unpacked
from sparcal.server.drafts import ConflictError, NotFoundError
from sparcal.stationfolder import StationFolder

_GRAVITY = {"ok": 0, "look": 1, "stop": 2}


def lot_key(lot: str) -> str:
    """A hash that stands for a lot in file names; the empty name is the station's own reference."""
    return hashlib.sha256(lot.encode("utf-8", "surrogatepass")).hexdigest()


def comparison_key(draft: int, side: str) -> str:
    """The same for one side of a draft's comparison."""
    return hashlib.sha256(f"draft {draft}\0{side}".encode()).hexdigest()


def active_lot(station: StationFolder) -> dict[str, Any]:
    """What the top of every page says; the name is empty for the station's own reference."""
    name = station.active()
    if name is None:
        return {"name": "", "since": None, "operator": None, "created": None, "threshold": None, "k": 0}
    record = station.read_lot(name)
    return {
        "name": name,
        "since": _active_since(station),
        "operator": record.get("operator"),
        "created": record["created"],
        "threshold": threshold_of(station, record)["value"],
        "k": len(record["images"]),
    }


def threshold_of(station: StationFolder, record: dict[str, Any]) -> dict[str, Any]:
    """A lot's threshold in force: the one set by hand if there is one."""
    found: dict[str, Any] = record["threshold"]
    return found


def summary(station: StationFolder, record: dict[str, Any], discarded: set[str]) -> dict[str, Any]:
    """One line of the list of lots."""
    threshold = threshold_of(station, record)
    return {
        "name": record["name"],
        "created": record["created"],
        "operator": record.get("operator"),
        "k": len(record["images"]),
        "correction": record["correction"],
        "threshold": threshold["value"],
        "by_hand": threshold["basis"] == "by hand",
        "worst": max((check["verdict"] for check in record["checks"]), key=_GRAVITY.__getitem__, default="ok"),
        "discarded": record["name"] in discarded,
    }


def discarded(connection: sqlite3.Connection) -> set[str]:
    """Lots that somebody discarded; their files stay, because lots never change."""
    return {row["lot"] for row in connection.execute("SELECT lot FROM decisions WHERE kind = 'discard'")}


def require_new(station: StationFolder, name: str) -> None:
    """A ConflictError if there is a lot of this name."""
    if station.lot(name).exists():
        raise ConflictError(f"There is a lot {name!r} already, and lots never change: give the new one another name.")


def require_known(station: StationFolder, name: str) -> dict[str, Any]:
    """What is written about a lot, or a NotFoundError."""
    if not (station.lot(name) / "lot.json").is_file():
        raise NotFoundError(f"There is no lot {name!r}.")
    return station.read_lot(name)


def record(
    connection: sqlite3.Connection, kind: str, lot: str, operator: str, detail: dict[str, Any] | None = None
) -> None:
    """Add a decision about a lot."""
    connection.execute(
        "INSERT INTO decisions (at, operator, kind, lot, detail) VALUES (?, ?, ?, ?, ?)",
        (now(), operator, kind, lot, packed(detail or {})),
    )


def activate(database: Database, station: StationFolder, lot: str | None, *, operator: str) -> None:
    """Have a lot judge from now on, or the station's own reference (None)."""
    if lot is not None:
        require_known(station, lot)
    with database.write() as connection:
        if lot in discarded(connection):
            raise ConflictError(f"Lot {lot!r} was discarded, so it cannot judge: calibrate a new one.")
        record(connection, "roll back", lot or "", operator, {"from": station.active() or ""})
        _point_at(station, lot, operator)


def decide(
    database: Database,
    station: StationFolder,
    draft: int,
    outcome: drafts.Outcome,
    *,
    operator: str,
    threshold: float | None = None,
) -> None:
    """Accept a calibrated lot, keep the old reference, or discard the draft."""
    if threshold is not None and outcome != "accept":
        raise DataError("A threshold can be set by hand only when a lot is accepted: leave it out.")
    with database.write() as connection:
        row = drafts.decide(connection, draft, outcome)
        result = unpacked(row["result"]) or {}
        detail = {"draft": draft, "instead of": station.active() or ""}
        record(
            connection,
            outcome,
            row["name"],
            operator,
            detail | ({"threshold": threshold} if threshold is not None else {}),
        )
        if outcome != "accept":
            return
        if threshold is not None and threshold != result.get("threshold"):
            _set_threshold(station, row["name"], threshold, operator)
        _point_at(station, row["name"], operator)


def station_facts(station: StationFolder, facts: dict[str, Any]) -> dict[str, Any]:
    """What was fitted, in a few words."""
    return {
        "host": str(facts.get("host", "")),
        "encoder": str(facts.get("encoder", "")),
        "training": len(facts.get("images", [])),
        "lots": len(station.read_lots()),
    }


def detail(station: StationFolder, found: dict[str, Any], gone: set[str]) -> dict[str, Any]:
    """One lot in full."""
    return summary(station, found, gone)


def compare(station: StationFolder, first: str, second: str) -> list[dict[str, Any]]:
    """Two lots side by side, one fact per row."""
    return []


def _active_since(station: StationFolder) -> str | None:
    from sparcal.records import read_json

    path = station.root / "active"
    return read_json(path).get("since") if path.is_file() else None


def _point_at(station: StationFolder, lot: str | None, operator: str) -> None:
    with station.locked():
        station.set_active(lot)
        station.log("activate", {"lot": lot, "operator": operator})


def _set_threshold(station: StationFolder, lot: str, value: float, operator: str) -> None:
    raise NotImplementedError
