"""Lots as the pages need them, read from the station's own files."""

from __future__ import annotations

import math
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from safetensors import safe_open

from sparcal.calibration.check_words import check_title, plain_sentence
from sparcal.calibration.thresholds import by_hand
from sparcal.files.hashing import file_digest, text_digest
from sparcal.files.json_record import read_json
from sparcal.server.data.corrections import correction_title, removes_something
from sparcal.server.data.trend import lot_counts
from sparcal.server.refusals import ConflictError, NotFoundError
from sparcal.server.sentences import without_paths
from sparcal.station.folder import StationFolder

LotOutcome = Literal["active", "replaced", "kept", "discarded", "undecided"]
PLANTED_PAGE = "self-test.html"
_MAPS = "maps.safetensors"
_ENERGY = "removed"


@dataclass(frozen=True)
class LotHistory:
    """What the database and the station's history know about lots.

    Args:
        counts: judged, passed and failed, by lot.
        drafts: the draft that each lot was made from.
    """

    active: str
    once_active: frozenset[str]
    outcomes: dict[str, str]
    counts: dict[str, dict[str, int]]
    drafts: dict[str, int]

    @classmethod
    def of(cls, connection: sqlite3.Connection, station: StationFolder) -> LotHistory:
        """As they are now."""
        made = connection.execute("SELECT id, name, state FROM drafts WHERE result IS NOT NULL ORDER BY id").fetchall()
        past = {str(line["lot"]) for line in station.history() if _made_active(line)}
        return cls(
            station.active() or "",
            frozenset(past),
            {row["name"]: row["state"] for row in made},
            lot_counts(connection),
            {row["name"]: row["id"] for row in made},
        )

    def state(self, name: str) -> LotOutcome:
        """What became of a lot."""
        if name == self.active:
            return "active"
        if self.outcomes.get(name) == "discarded":
            return "discarded"
        if name in self.once_active:
            return "replaced"
        return "undecided" if self.outcomes.get(name) == "calibrated" else "kept"


def _made_active(line: dict[str, Any]) -> bool:
    """Whether an event had a lot judge from then on; one that no check stops does so as soon as it is calibrated."""
    return bool(line.get("lot")) and (
        line.get("event") == "activate" or (line.get("event") == "calibrate" and bool(line.get("active")))
    )


def lot_key(lot: str) -> str:
    """A hash that stands for a lot in file names; the empty name is the station's own reference."""
    return text_digest(lot)


def comparison_key(draft: int, side: str) -> str:
    """The same for one side of a draft's comparison."""
    return text_digest(f"draft {draft}\0{side}")


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
    chosen = station.thresholds(found["name"]).get("image")
    threshold: dict[str, Any] = found["image_threshold"] if chosen is None else by_hand(chosen).to_json()
    return threshold


def summary(station: StationFolder, found: dict[str, Any], facts: LotHistory) -> dict[str, Any]:
    """One row in the list of lots."""
    threshold = threshold_of(station, found)
    name = found["name"]
    return {
        "name": name,
        "created": found["created"],
        "operator": found["operator"],
        "k": len(found["images"]),
        "correction": correction_title(found["correction"]),
        "threshold": threshold["value"],
        "by_hand": threshold["basis"] == "by hand",
        "worst": found["verdict"],
        "state": facts.state(name),
        "counts": facts.counts.get(name, {"scored": 0, "passed": 0, "failed": 0}),
        "self_test": found.get("self_test"),
    }


def detail(station: StationFolder, found: dict[str, Any], facts: LotHistory) -> dict[str, Any]:
    """One lot in full."""
    folders = {f"{Path(path).parent}/": "" for path, _ in found["images"]}
    known = {**folders, str(station.root): station.root.name}
    return {
        **summary(station, found, facts),
        "sentence": found["choice"]["sentence"],
        "threshold_sentence": threshold_of(station, found)["sentence"],
        "promise": _promise(threshold_of(station, found)),
        "checks": [shown_check(check, known) for check in found["checks"]],
        "images": [{"name": Path(path).name, "sha256": sha} for path, sha in found["images"]],
        "draft": facts.drafts.get(found["name"]),
        "planted_page": PLANTED_PAGE in found["files"],
        "removed_energy": _removed_energy(station, found),
    }


def shown_check(check: dict[str, Any], known: dict[str, str]) -> dict[str, Any]:
    """A check as pages show it: in plain words first, and without paths."""
    number, name, verdict = check["number"], check["name"], check["verdict"]
    sentence = without_paths(check["sentence"], known)
    images = [Path(image).name for image in check.get("images", ())]
    return {
        "name": name,
        "title": check_title(name),
        "number": number if number is not None and math.isfinite(number) else None,
        "verdict": verdict,
        "plain": plain_sentence(name, verdict, sentence, images),
        "sentence": sentence,
    }


def _removed_energy(station: StationFolder, found: dict[str, Any]) -> list[list[float]] | None:
    """Share of each cell's energy that the lot's correction takes out; None where it keeps all."""
    if _MAPS not in found["files"] or not removes_something(found["correction"]):
        return None
    with safe_open(station.lot(found["name"]) / _MAPS, framework="np") as maps:
        if _ENERGY not in maps.keys():  # noqa: SIM118 - it is no mapping
            return None
        shares: list[list[float]] = maps.get_tensor(_ENERGY).astype(float).round(4).tolist()
    return shares


def require_new(station: StationFolder, name: str) -> None:
    """A ConflictError if there is a lot of this name."""
    if station.lot(name).exists():
        raise ConflictError(f"There is a lot {name!r} already, and lots never change: give the new one another name.")


def require_known(station: StationFolder, name: str) -> dict[str, Any]:
    """What is written about a lot, or a NotFoundError."""
    if not (station.lot(name) / "lot.json").is_file():
        raise NotFoundError(f"There is no lot {name!r}.")
    return station.read_lot(name)


def require_listed(connection: sqlite3.Connection, station: StationFolder, name: str) -> None:
    """A NotFoundError where nothing was ever judged by that name: no lot there is, and none that has gone since."""
    if name == "" or (station.lot(name) / "lot.json").is_file():
        return
    if connection.execute("SELECT 1 FROM scores WHERE lot = ? LIMIT 1", (name,)).fetchone() is None:
        raise NotFoundError(f"There is no lot {name!r}.")


def planted_page(station: StationFolder, name: str) -> Path:
    """The page with every planted defect of a lot, found and missed, as it was written; a NotFoundError without one."""
    found = require_known(station, name)
    path = station.lot(found["name"]) / PLANTED_PAGE
    if PLANTED_PAGE not in found["files"] or not path.is_file() or file_digest(path) != found["files"][PLANTED_PAGE]:
        raise NotFoundError(f"Lot {name!r} has no page of planted defects.")
    return path


def station_facts(station: StationFolder, facts: dict[str, Any]) -> dict[str, Any]:
    """What was fitted, in a few words."""
    return {
        "host": str(facts.get("host", "")),
        "encoder": str(facts.get("encoder_id", "")),
        "training": len(facts.get("images", [])),
        "lots": sum(1 for _ in station.lots.glob("*/lot.json")),
    }


def lot_differences(station: StationFolder, first: str, second: str) -> list[dict[str, Any]]:
    """Two lots side by side, one fact per row."""
    a, b = (require_known(station, name) for name in (first, second))
    shared = {sha for _, sha in a["images"]} & {sha for _, sha in b["images"]}
    checks = [{check["name"]: check["verdict"] for check in one["checks"]} for one in (a, b)]
    rows: list[tuple[str, Any, Any]] = [
        ("calibrated", a["created"], b["created"]),
        ("by", a["operator"], b["operator"]),
        ("good parts shown", len(a["images"]), len(b["images"])),
        ("good parts in both", len(shared), len(shared)),
        ("method", correction_title(a["correction"]), correction_title(b["correction"])),
        ("threshold", *(threshold_of(station, one)["value"] for one in (a, b))),
        ("threshold from", *(threshold_of(station, one)["basis"] for one in (a, b))),
        ("planted defects found", _found_share(a), _found_share(b)),
        *((check_title(name), checks[0].get(name), checks[1].get(name)) for name in checks[0] | checks[1]),
    ]
    return [{"what": what, "first": x, "second": y} for what, x, y in rows if x is not None or y is not None]


def _promise(threshold: dict[str, Any]) -> str:
    """What the threshold promises about good parts, in plain words."""
    asked = threshold["false_reject"]
    if asked is None:
        return "It was set by hand, so nothing is promised about good parts."
    if threshold["free"]:
        return f"At most {asked:.0%} of good parts are rejected on average, whatever their scores look like."
    return f"At most {asked:.0%} of good parts should be rejected, but the parts shown are too few to promise it."


def _found_share(found: dict[str, Any]) -> str | None:
    test = found.get("self_test")
    return f"{test['found']} of {test['planted']}" if test else None


def _active_since(station: StationFolder) -> str | None:
    path = station.root / "active"
    return str(read_json(path)["since"]) if path.is_file() else None
