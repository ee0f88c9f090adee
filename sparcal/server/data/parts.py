"""Parts that a person found good and wants to add to the ones the station was fitted on."""

from __future__ import annotations

import sqlite3
from sqlite3 import Row

from sparcal.files.json_record import now
from sparcal.server.data import jobs, scores
from sparcal.server.data.database import packed
from sparcal.server.refusals import ConflictError
from sparcal.station.folder import StationFolder

MOST = 200


def offered(connection: sqlite3.Connection, station: StationFolder, lot: str) -> list[Row]:
    """Images that passed, that somebody found good, that are still here and new to the station; the best first.

    A part that the station had failed is never offered: one wrong click would teach the station a defect.
    """
    held = {digest for _, digest in station.read_station()["images"]}
    return [row for row in scores.found_good(connection, lot, overruled=False) if row["sha"] not in held][:MOST]


def ask(connection: sqlite3.Connection, station: StationFolder, lot: str, shas: list[str], *, operator: str) -> int:
    """Queue the job that adds these images to the station, and keep who asked; returns the job's number."""
    if connection.execute("SELECT 1 FROM jobs WHERE kind = 'fit' AND state IN ('queued', 'running')").fetchone():
        raise ConflictError("Parts are being added to the station already: wait until that is done.")
    if not set(shas) <= {row["sha"] for row in offered(connection, station, lot)}:
        raise ConflictError("An image did not pass, was not found good, or is in the station already: reload the page.")
    connection.execute(
        "INSERT INTO decisions (at, operator, kind, lot, detail) VALUES (?, ?, 'add', ?, ?)",
        (now(), operator, lot, packed({"images": len(set(shas)), "sha256": sorted(set(shas))})),
    )
    return jobs.enqueue(connection, "fit", {"images": sorted(set(shas)), "operator": operator})
