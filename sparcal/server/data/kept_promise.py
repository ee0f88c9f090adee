"""Does what was judged contradict what the threshold promised? Parts that somebody found defective do not count."""

from __future__ import annotations

import sqlite3
from functools import lru_cache

from sparcal.calibration.defaults import FALSE_REJECT
from sparcal.calibration.promise import check_promise
from sparcal.calibration.thresholds import Threshold, find_threshold
from sparcal.server.data.alarms import judging_since
from sparcal.server.data.lots import threshold_of
from sparcal.station.folder import StationFolder

_COUNTED = """
SELECT count(*) AS judged, coalesce(sum(verdict = 'fail'), 0) AS rejected FROM scores
WHERE lot = :lot AND created >= :since AND problem IS NULL AND threshold = :threshold AND NOT EXISTS (
    SELECT 1 FROM decisions AS word WHERE word.score = scores.id
    AND word.id = (SELECT max(id) FROM decisions WHERE decisions.score = scores.id)
    AND (word.kind = 'confirm') = (scores.verdict = 'fail'))
"""


def broken_promise(connection: sqlite3.Connection, station: StationFolder, lot: str) -> str | None:
    """One sentence if far more parts are rejected than the threshold in force promised; None while that may be chance."""
    threshold = _threshold(station, lot)
    if threshold is None or threshold.ceiling is None:
        return None
    values = {"lot": lot, "since": judging_since(station, lot), "threshold": threshold.value}
    row = connection.execute(_COUNTED, values).fetchone()
    check = check_promise(threshold, row["judged"], row["rejected"])
    return check.sentence if check.contradicted else None


def _threshold(station: StationFolder, lot: str) -> Threshold | None:
    if lot:
        return Threshold.from_json(threshold_of(station, station.read_lot(lot)))
    own = station.read_station().get("own", ())
    return _own_threshold(tuple(own)) if own and not station.override(None).is_file() else None


@lru_cache(maxsize=4)
def _own_threshold(own: tuple[float, ...]) -> Threshold:
    return find_threshold(list(own), [], FALSE_REJECT)
