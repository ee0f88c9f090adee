"""Lots as the pages need them, read from the station's own files, and the decisions that are taken about them.

A decision is one transaction: it is refused, or it is in the database and in the station's files before anybody is
told so. If the process dies in between, the transaction is undone and the operator decides again.
"""

from __future__ import annotations

import hashlib
import math
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import safe_open

from sparcal.calibration.thresholds import by_hand
from sparcal.errors import DataError
from sparcal.files.json_record import now, read_json
from sparcal.server.data import drafts
from sparcal.server.data.corrections import REMOVES_NOTHING
from sparcal.server.data.database import Database, packed, unpacked
from sparcal.server.refusals import ConflictError, NotFoundError
from sparcal.server.sentences import without_paths
from sparcal.station.folder import StationFolder

if TYPE_CHECKING:
    from sparcal.station.station import Station

_MAPS = "maps.safetensors"
_ENERGY = "removed"


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
        "operator": record["operator"],
        "created": record["created"],
        "threshold": threshold_of(station, record)["value"],
        "k": len(record["images"]),
    }


def threshold_of(station: StationFolder, found: dict[str, Any]) -> dict[str, Any]:
    """A lot's threshold in force: the one set by hand if there is one."""
    path = station.override(found["name"])
    chosen = read_json(path).get("image") if path.is_file() else None
    threshold: dict[str, Any] = found["image_threshold"] if chosen is None else by_hand(chosen).to_json()
    return threshold


def summary(station: StationFolder, found: dict[str, Any], gone: set[str]) -> dict[str, Any]:
    """One row in the list of lots."""
    threshold = threshold_of(station, found)
    return {
        "name": found["name"],
        "created": found["created"],
        "operator": found["operator"],
        "k": len(found["images"]),
        "correction": found["correction"],
        "threshold": threshold["value"],
        "by_hand": threshold["basis"] == "by hand",
        "worst": found["verdict"],
        "discarded": found["name"] in gone,
    }


def detail(station: StationFolder, found: dict[str, Any], gone: set[str]) -> dict[str, Any]:
    """One lot in full."""
    folders = {f"{Path(path).parent}/": "" for path, _ in found["images"]}
    known = {**folders, str(station.root): station.root.name}
    return {
        **summary(station, found, gone),
        "sentence": found["choice"]["sentence"],
        "threshold_sentence": threshold_of(station, found)["sentence"],
        "checks": [shown_check(check, known) for check in found["checks"]],
        "images": [{"name": Path(path).name, "sha256": sha} for path, sha in found["images"]],
        "removed_energy": _removed_energy(station, found),
    }


def shown_check(check: dict[str, Any], known: dict[str, str]) -> dict[str, Any]:
    """A check as pages show it: without paths."""
    number = check["number"]
    return {
        "name": check["name"],
        "number": number if number is not None and math.isfinite(number) else None,
        "verdict": check["verdict"],
        "sentence": without_paths(check["sentence"], known),
    }


def _removed_energy(station: StationFolder, found: dict[str, Any]) -> list[list[float]] | None:
    """Share of each cell's energy that the lot's correction takes out; None where it keeps all."""
    if _MAPS not in found["files"] or found["correction"] in REMOVES_NOTHING:
        return None
    with safe_open(station.lot(found["name"]) / _MAPS, framework="np") as maps:
        if _ENERGY not in maps.keys():  # noqa: SIM118 - it is no mapping
            return None
        shares: list[list[float]] = maps.get_tensor(_ENERGY).astype(float).round(4).tolist()
    return shares


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
    opened = _open(station)
    with database.write() as connection:
        if lot in discarded(connection):
            raise ConflictError(f"Lot {lot!r} was discarded, so it cannot judge: calibrate a new one.")
        record(connection, "roll back", lot or "", operator, {"from": station.active() or ""})
        opened.activate(lot, operator=operator)


def decide_draft(
    database: Database,
    station: StationFolder,
    draft: int,
    outcome: drafts.DraftDecision,
    *,
    operator: str,
    threshold: float | None = None,
) -> None:
    """Accept a calibrated lot, keep the old reference, or discard the draft."""
    if threshold is not None and outcome != "accept":
        raise DataError("A threshold can be set by hand only when a lot is accepted: leave it out.")
    opened = _open(station)
    with database.write() as connection:
        row = drafts.close_draft(connection, draft, outcome)
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
            opened.set_threshold(row["name"], image=threshold, operator=operator)
        opened.activate(row["name"], operator=operator)


def station_facts(station: StationFolder, facts: dict[str, Any]) -> dict[str, Any]:
    """What was fitted, in a few words."""
    return {
        "host": str(facts.get("host", "")),
        "encoder": str(facts.get("encoder_id", "")),
        "training": len(facts.get("images", [])),
        "lots": len(station.read_lots()),
    }


def lot_differences(station: StationFolder, first: str, second: str) -> list[dict[str, Any]]:
    """Two lots side by side, one fact per row."""
    for name in (first, second):
        require_known(station, name)
    return _open(station).compare(first, second)


def _active_since(station: StationFolder) -> str | None:
    path = station.root / "active"
    return str(read_json(path)["since"]) if path.is_file() else None


def _open(station: StationFolder) -> Station:
    """The station for decisions, opened before a transaction begins: the first time loads torch."""
    from sparcal.station.station import Station

    return Station.open(station.root)
