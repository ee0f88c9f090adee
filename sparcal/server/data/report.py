"""A lot's report: all that somebody who was not there needs to know about it."""

from __future__ import annotations

from typing import Any

from sparcal.server.data import audit, drafts, lots, scores
from sparcal.server.data.database import Database, unpacked
from sparcal.server.data.retention import GONE
from sparcal.station.folder import StationFolder

_DECISIONS = 500


def lot_report(database: Database, station: StationFolder, name: str) -> dict[str, Any]:
    """What was calibrated, by whom, what the checks said, what it has judged since, and who decided what."""
    found = lots.require_known(station, name)
    with database.read() as connection:
        facts = lots.LotHistory.of(connection, station)
        counts = scores.counts(connection, found["name"])
        draft = facts.drafts.get(found["name"])
        pairs = [] if draft is None else [_pair(image) for image in drafts.images(connection, draft)]
    entries = audit.trail(database, station, limit=10_000)
    return {
        "lot": lots.detail(station, found, facts),
        "counts": counts,
        "draft": draft,
        "pairs": [pair for pair in pairs if pair["before"] is not None],
        "decisions": [entry for entry in entries if entry["lot"] == found["name"]][:_DECISIONS],
        "station": {**lots.station_facts(station, station.read_station()), "versions": found.get("versions", {})},
    }


def _pair(image: Any) -> dict[str, Any]:
    comparison = unpacked(image["comparison"]) or {}
    return {
        "sha": image["sha"],
        "name": image["name"],
        "good": bool(image["good"]),
        "here": image["state"] not in GONE,
        "before": comparison.get("base"),
        "after": comparison.get("lot"),
    }
