"""The station and its lots as the worker holds them: loaded once, and kept between jobs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sparcal.devices import AUTO_DEVICE
from sparcal.server.data.station_files import RememberedFolder

if TYPE_CHECKING:
    from sparcal.station.lot import Lot
    from sparcal.station.station import Station

_LOTS_KEPT = 3


@dataclass
class Loaded:
    """One station, opened when it is first needed, and again when somebody has added parts to it."""

    path: Path
    device: str = AUTO_DEVICE
    _folder: RememberedFolder = field(init=False)
    _station: Station | None = field(default=None, init=False)
    _lots: dict[tuple[str, int], Lot] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._folder = RememberedFolder(self.path)

    @property
    def station(self) -> Station:
        """The station as it is now."""
        if self._station is not None and self._station.digest != self._folder.read_station()["digest"]:
            self.reload()
        if self._station is None:
            from sparcal.station.station import Station

            self._station = Station.open(self.path, device=self.device)
        return self._station

    def reload(self, station: Station | None = None) -> None:
        """Drop what is held, because the station has changed; go on with `station` if there is one already."""
        self._station = station
        self._lots.clear()

    def lot(self, name: str) -> Lot:
        """A lot, read again when its threshold was set by hand; the empty name is the station's own reference."""
        override = self.station.folder.override(name or None)
        key = (name, override.stat().st_mtime_ns if override.exists() else 0)
        if key not in self._lots:
            while len(self._lots) >= _LOTS_KEPT:
                self._lots.pop(next(iter(self._lots)))
            self._lots[key] = self.station.lot(name) if name else self.station.own()
        return self._lots[key]
