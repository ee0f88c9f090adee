"""Who did what: the decisions taken here and the station's own history, as one list."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from sqlite3 import Row
from typing import Any

from sparcal.server.data.database import Database, unpacked
from sparcal.station.folder import StationFolder

_SAID = {
    "accept": "accepted lot {lot}",
    "alarm": "noticed that parts judged by {by} look different: {what}",
    "add": "asked for {images} that {by} had judged to be added to the station as good parts",
    "keep": "kept the old reference instead of lot {lot}",
    "discard": "discarded lot {lot}",
    "dismiss": "looked at parts that look different and holds them to be in order: “{why}”",
    "roll back": "went back to lot {lot}",
    "confirm": "found {image} {finding}, as {by} had judged it",
    "judge again": "had {images} judged again, which {source} had judged before",
    "forget": "forgot {images} that {by} had judged",
    "overrule": "found {image} {finding}, though {by} had judged it {verdict}",
    "watch": "switched the judging of the watched folder {on}",
}


_LOGGED = {
    "fit": "fitted the station on {images} good parts",
    "calibrate": "calibrated lot {lot}",
    "activate": "made lot {lot} active",
    "threshold": "set the threshold of {by} by hand to {value}",
}
_TAKEN_BACK = "took the calibrated threshold of {by} back"
_LIMITS = {"image": "", "pixel": " for pixels"}
_NAMED = ("image", "images", "on", "verdict", "finding", "source", "what", "why")
_SAME_S = 5.0


def trail(database: Database, station: StationFolder, *, limit: int) -> list[dict[str, Any]]:
    """The newest entries first."""
    with database.read() as connection:
        rows = connection.execute("SELECT * FROM decisions ORDER BY id DESC LIMIT ?", (min(limit, 10_000),)).fetchall()
    decided = [_entry(row) for row in rows]
    logged = [_from_history(line) for line in station.history()]
    # What was decided here is in the station's history too; it is told once, in the words of the decision.
    alone = [line for line in logged if not any(_same(line, one) for one in decided)]
    return sorted(decided + alone, key=lambda entry: _moment(entry["at"]), reverse=True)[:limit]


def _entry(row: Row) -> dict[str, Any]:
    detail = unpacked(row["detail"])
    if "images" in detail:
        detail["images"] = f"{detail['images']} image{'' if detail['images'] == 1 else 's'}"
    if "on" in detail:
        detail["on"] = "on" if detail["on"] else "off"
    by = _reference(row["lot"])
    if "verdict" in detail:
        passed = (detail["verdict"] == "pass") == (row["kind"] == "confirm")
        detail["finding"] = "good" if passed else "defective"
        detail["verdict"] = "good" if detail["verdict"] == "pass" else "defective"
    if row["kind"] == "judge again":
        detail["source"] = _reference(detail["from"])
    said = _SAID[row["kind"]].format(lot=row["lot"], by=by, **{k: detail.get(k, "") for k in _NAMED})
    if row["kind"] == "roll back" and not row["lot"]:
        said = "went back to the station's own reference"
    if detail.get("threshold") is not None:
        said += f" with the threshold set by hand to {detail['threshold']:.4g}"
    said += _past_a_stop(detail)
    entry = {"at": row["at"], "operator": row["operator"], "kind": row["kind"], "lot": row["lot"], "sentence": said}
    return entry | ({"replaced": detail["instead of"]} if "instead of" in detail else {})


def _past_a_stop(told: Mapping[str, Any]) -> str:
    return f", although a check said stop: “{told['reason']}”" if told.get("reason") else ""


def _reference(lot: str) -> str:
    return f"lot {lot}" if lot else "the station's own reference"


def _from_history(line: dict[str, Any]) -> dict[str, Any]:
    lot, event = line.get("lot") or "", str(line.get("event", ""))
    value = " and ".join(f"{line[kind]:.4g}{words}" for kind, words in _LIMITS.items() if line.get(kind) is not None)
    words = _TAKEN_BACK if event == "threshold" and not value else _LOGGED.get(event, event + " {lot}" * bool(lot))
    said = words.format(lot=lot, by=_reference(lot), images=line.get("images", ""), value=value)
    if event == "activate" and not lot:
        said = "went back to the station's own reference"
    said += _past_a_stop(line)
    at, operator = str(line.get("time", "")), line.get("operator")
    return {"at": at, "operator": operator, "kind": event, "lot": lot, "sentence": said}


def _same(line: dict[str, Any], decision: dict[str, Any]) -> bool:
    told = line["kind"] in {"activate", "threshold"} and decision["kind"] in {"accept", "roll back"}
    match = told and (line["lot"], line["operator"]) == (decision["lot"], decision["operator"])
    return match and abs((_moment(line["at"]) - _moment(decision["at"])).total_seconds()) < _SAME_S


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
