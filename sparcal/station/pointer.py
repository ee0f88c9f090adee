"""Small files that say what is in service, which lot and which thresholds, so that none is lost or exchanged in silence.

Each is a record with a digest, and the station's history has a line of the same time for it. A file that is missing
though the history has such a line, an old copy, and a file of another station are refused. Each also names the line
before its own: a kill between the two writes leaves the file ahead of the history by that one line, which is fine.
Where the history itself is lost, the files are taken as they are.

Files of version 0.1 have no digest; they are taken as they are, if they hold exactly what that version wrote, and the
next change replaces them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sparcal.errors import ArtifactError, DataError
from sparcal.files.json_record import now, read_json, read_record, write_record

History = Sequence[Mapping[str, Any]]

_ACTIVE, _BY_HAND = "active lot", "thresholds by hand"
# What version 0.1 wrote, at least and at most.
_ACTIVE_OF_0_1 = ({"lot", "since"}, {"lot", "since"})
_BY_HAND_OF_0_1 = ({"operator", "time"}, {"image", "pixel", "operator", "time"})


def point_at(path: Path, lot: str | None, history: History) -> str:
    """Name the active lot, None for the station's own reference; returns the time, for the history's line."""
    since = now()
    write_record(path, _ACTIVE, {"lot": lot, "since": since, "after": _last_time(_activations(history))})
    return since


def active_lot_name(path: Path, history: History, place: Callable[[str], Path]) -> str | None:
    """The lot that scores when none is named; None for the station's own reference.

    Args:
        history: of the station, oldest first; so everywhere here.
        place: where the lot of a name lies; one that has gone is no reason to judge by something else.
    """
    changes = _activations(history)
    if not path.is_file():
        if not changes:
            return None  # no lot was ever active
        raise ArtifactError(
            f"{path} was expected to name the active lot, {changes[-1].get('lot')!r} by the history, got no file: "
            "activate a lot (sparcal lots --activate NAME) or the station's own reference (--own) again."
        )
    record = _of_0_1(path, *_ACTIVE_OF_0_1)
    if record is None:
        record = read_record(path, _ACTIVE)
        _check_turn(path, record, record.get("since"), changes)
    name = record.get("lot")
    if name is not None and not place(str(name)).is_dir():
        raise ArtifactError(
            f"{place(str(name))} was expected to hold the active lot {name!r}, got no folder: restore it from a copy, or "
            "activate another lot (sparcal lots --activate NAME) or the station's own reference (--own)."
        )
    return None if name is None else str(name)


def why_past_stop(lot: Mapping[str, Any], reason: str | None) -> dict[str, str]:
    """What the history keeps of the reason to judge with a lot that a check stopped; no other lot needs one."""
    if lot.get("verdict") != "stop":
        return {}
    if not reason or not reason.strip():
        raise DataError(
            f"A check of lot {lot['name']!r} says stop, so it judges only if somebody gives a reason, got none: write it "
            "down (sparcal lots --activate NAME --reason TEXT, activate(reason=TEXT)), or calibrate a new lot."
        )
    return {"reason": reason}


def set_by_hand(
    path: Path, lot: str | None, chosen: Mapping[str, float], history: History, *, operator: str | None
) -> str:
    """Keep thresholds that somebody chose for a lot, none of them for the calibrated ones; returns the time."""
    time = now()
    after = _last_time(_threshold_changes(history, lot))
    write_record(path, _BY_HAND, {**chosen, "lot": lot, "operator": operator, "time": time, "after": after})
    return time


def thresholds_by_hand(path: Path, lot: str | None, history: History) -> dict[str, float]:
    """The thresholds that somebody set for a lot since its calibration, by kind: "image", "pixel".

    Args:
        lot: its name, None for the station's own reference.
    """
    changes = _threshold_changes(history, lot)
    if not path.is_file():
        if not changes:
            return {}
        raise ArtifactError(
            f"{path} was expected to hold the thresholds that were set by hand on {changes[-1].get('time')}, got no file: "
            "restore it, or set the threshold again (sparcal show --threshold)."
        )
    record = _of_0_1(path, *_BY_HAND_OF_0_1)
    if record is None:
        record = read_record(path, _BY_HAND)
        if record.get("lot") != lot:
            raise ArtifactError(f"{path} was expected to be about lot {lot!r}, got {record.get('lot')!r}: restore it.")
        _check_turn(path, record, record.get("time"), changes)
    return {kind: record[kind] for kind in ("image", "pixel") if kind in record}


def _activations(history: History) -> list[Mapping[str, Any]]:
    return [line for line in history if line.get("event") == "activate" or line.get("active") is True]


def _threshold_changes(history: History, lot: str | None) -> list[Mapping[str, Any]]:
    return [line for line in history if line.get("event") == "threshold" and line.get("lot") == lot]


def _last_time(changes: History) -> str | None:
    return str(changes[-1].get("time")) if changes else None


def _of_0_1(path: Path, least: set[str], most: set[str]) -> dict[str, Any] | None:
    """What version 0.1 wrote; None for a file of another version."""
    record = read_json(path)
    return record if least <= set(record) <= most else None


def _check_turn(path: Path, record: Mapping[str, Any], written: object, changes: History) -> None:
    """Refuse a file that the history does not end with, or that does not come right after it."""
    last = _last_time(changes)
    if last is not None and last not in (written, record.get("after")):
        raise ArtifactError(
            f"{path} was expected to be of {last}, the last such change in the station's history, got one of {written}: "
            "it is an old copy or of another station, so make the change again."
        )
