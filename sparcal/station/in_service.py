"""The lot that judges now: looked up again while images are judged, because somebody may activate another one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sparcal.files.settled import FileMark, file_marks
from sparcal.station.station import Station

if TYPE_CHECKING:
    from sparcal.station.lot import Lot


class LotInService:
    """A station's lot by name, or whichever is active, as it stands in the station's folder at this moment.

    Args:
        name: None follows the active lot.
    """

    def __init__(self, station: Station, name: str | None) -> None:
        self._name = name
        self._seen = _marks(station)  # before reading: a change meanwhile is found by the next look
        self.lot: Lot = station.lot(name)

    def changed(self) -> bool:
        """Look again: True where another lot, or another threshold, judges from now on."""
        before = self.lot
        seen = _marks(before.station)
        if seen == self._seen:
            return False
        known = before.station
        station = Station.open(known.path, encoder=known.encoder, workers=known.workers, kinds=known.kinds)
        self._seen, self.lot = seen, station.lot(self._name)
        return _identity(self.lot) != _identity(before)


def _marks(station: Station) -> dict[Path, FileMark]:
    """What changes with the lot that judges, or with a threshold; a folder's mark changes with what appears in it."""
    folder = station.folder
    return file_marks([folder.record, folder.root / "active", folder.overrides])


def _identity(lot: Lot) -> tuple[object, ...]:
    return lot.name, lot.folder, lot.thresholds
