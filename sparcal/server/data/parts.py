"""Parts that a person found good and wants to add to the ones the station was fitted on."""

from __future__ import annotations

import sqlite3

from sparcal.files.json_record import now
from sparcal.server.data import jobs, scores
from sparcal.server.data.database import packed
from sparcal.server.refusals import ConflictError
from sparcal.station.folder import StationFolder

MOST = 200


def offered(connection: sqlite3.Connection, station: StationFolder, lot: str) -> list[str]:
    """Images of a lot that were confirmed as good, are still here and are new to the station; the best first."""
    held = {digest for _, digest in station.read_station()["images"]}
    return [sha for sha in scores.confirmed_good(connection, lot, limit=-1) if sha not in held][:MOST]


def ask(connection: sqlite3.Connection, station: StationFolder, lot: str, shas: list[str], *, operator: str) -> int:
    """Queue the job that adds these images to the station, and keep who asked; returns the job's number."""
    if connection.execute("SELECT 1 FROM jobs WHERE kind = 'fit' AND state IN ('queued', 'running')").fetchone():
        raise ConflictError("Parts are being added to the station already: wait until that is done.")
    if not set(shas) <= set(offered(connection, station, lot)):
        raise ConflictError("An image is not confirmed as good, or in the station already: reload the page.")
    connection.execute(
        "INSERT INTO decisions (at, operator, kind, lot, detail) VALUES (?, ?, 'add', ?, ?)",
        (now(), operator, lot, packed({"images": len(set(shas)), "sha256": sorted(set(shas))})),
    )
    return jobs.enqueue(connection, "fit", {"images": sorted(set(shas)), "operator": operator})
