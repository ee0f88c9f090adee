"""Does what was judged contradict what the threshold promised? Parts that somebody found defective do not count."""

from __future__ import annotations

import sqlite3
from functools import lru_cache
from typing import Any

from sparcal.calibration.defaults import FALSE_REJECT
from sparcal.calibration.promise import check_promise
from sparcal.calibration.thresholds import Threshold, find_threshold
from sparcal.errors import ArtifactError
from sparcal.server.data.alarms import judging_since
from sparcal.server.data.lots import threshold_of
from sparcal.server.data.unchanged import Unchanged
from sparcal.station.folder import StationFolder

TRULY_BAD = "If they are truly defective, mark them so under Judge (D): such parts no longer count here."
_COUNTED = """
SELECT count(*) AS judged, coalesce(sum(verdict = 'fail'), 0) AS rejected FROM scores
WHERE lot = :lot AND threshold = :threshold AND verdict IN ('pass', 'fail') AND created >= :since
"""
_FOUND_DEFECTIVE = """
SELECT count(*) AS judged, coalesce(sum(verdict = 'fail'), 0) AS rejected
FROM (SELECT score AS part, kind, max(id) FROM decisions WHERE lot = :lot AND score IS NOT NULL GROUP BY score)
JOIN scores ON scores.id = part
WHERE threshold = :threshold AND created >= :since AND (kind = 'confirm') = (verdict = 'fail')
"""


def broken_promise(connection: sqlite3.Connection, station: StationFolder, lot: str, known: Unchanged) -> str | None:
    """One sentence if far more parts are rejected than the threshold in force promised; None while that may be chance."""
    threshold = _threshold(station, lot)
    if threshold is None or threshold.ceiling is None:
        return None
    values = {"lot": lot, "since": judging_since(station, lot), "threshold": threshold.value}
    judged, rejected = known.answer(connection, ("promise", *values.values()), lambda: _counted(connection, values))
    check = check_promise(threshold, judged, rejected)
    return f"{check.sentence} {TRULY_BAD}" if check.contradicted else None


def _counted(connection: sqlite3.Connection, values: dict[str, Any]) -> tuple[int, int]:
    judged, rejected = connection.execute(_COUNTED, values).fetchone()
    bad, bad_rejected = connection.execute(_FOUND_DEFECTIVE, values).fetchone()
    return judged - bad, rejected - bad_rejected


def _threshold(station: StationFolder, lot: str) -> Threshold | None:
    if lot:
        return Threshold.from_json(threshold_of(station, station.read_lot(lot)))
    own = station.read_station().get("own", ())
    try:
        chosen = station.thresholds(None).get("image")
    except ArtifactError:  # whoever judges by it says so
        return None
    return _own_threshold(tuple(own)) if own and chosen is None else None  # one set by hand promises nothing


@lru_cache(maxsize=4)
def _own_threshold(own: tuple[float, ...]) -> Threshold:
    return find_threshold(list(own), [], FALSE_REJECT)
