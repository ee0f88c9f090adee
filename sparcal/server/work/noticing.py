"""The monitor of what judges now, as the worker holds it: it looks at each part after its verdict, and raises the alarm."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sparcal.errors import SparcalError
from sparcal.server.data import alarms
from sparcal.server.data.alarms import WatchedSpan
from sparcal.server.data.database import Database, unpacked
from sparcal.server.data.station_files import RememberedFolder
from sparcal.server.work.loaded import Loaded

if TYPE_CHECKING:
    import sqlite3

    from sparcal.station.judgement import Judgement
    from sparcal.station.lot import Lot
    from sparcal.station.monitor import Monitor

_log = logging.getLogger("sparcal.server.work.noticing")


@dataclass
class Noticing:
    """One monitor at a time, for the reference that judges now; made anew from what was kept whenever that changes."""

    database: Database
    loaded: Loaded
    folder: RememberedFolder = field(init=False)
    _span: WatchedSpan | None = field(default=None, init=False)
    _monitor: Monitor | None = field(default=None, init=False)
    _scores: list[int] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.folder = RememberedFolder(self.loaded.path)

    def look(self, lot: Lot) -> Monitor | None:
        """The monitor for a lot; None for one that does not judge now, and where there is nothing to compare with."""
        name = lot.name or ""
        if name != (self.folder.active() or ""):
            return None
        with self.database.read() as connection:
            span = alarms.span_of(connection, self.folder, name)
            if span != self._span:
                self.forget()
                self._monitor = self._rebuilt(connection, lot, span)
                self._span = span
        return self._monitor

    def keep(self, connection: sqlite3.Connection, monitor: Monitor, judgement: Judgement, sha: str, lot: str) -> None:
        """Within the transaction of a verdict: what was read of the part, and the alarm if it gives one."""
        from sparcal.calibration.sight import PartReading

        if (reading := monitor.read(judgement)) is None:
            return
        kept = reading.to_json()
        self._scores.append(alarms.keep_reading(connection, sha, lot, kept))
        shift = monitor.take(PartReading.from_json(kept))  # as another worker would read it
        if shift is not None:
            first, last = self._scores[shift.first], self._scores[shift.last]
            alarms.raise_alarm(connection, lot, first=first, last=last, what=shift.what)

    def forget(self) -> None:
        """Drop the monitor, for instance because a verdict could not be written; it is made anew from what was kept."""
        self._span, self._monitor, self._scores = None, None, []

    def _rebuilt(self, connection: sqlite3.Connection, lot: Lot, span: WatchedSpan) -> Monitor | None:
        from sparcal.calibration.sight import PartReading

        try:
            monitor = lot.monitor()
        except SparcalError as error:
            _log.warning("shifts are not watched for: %s", error)
            return None
        normal, stream = alarms.kept_readings(connection, span)
        if normal:
            monitor.restart([PartReading.from_json(unpacked(row["reading"])) for row in normal])
        for row in stream:
            self._scores.append(row["score"])
            monitor.take(PartReading.from_json(unpacked(row["reading"])))
        return monitor
