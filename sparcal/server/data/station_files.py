"""The station's files as the server reads them: each is parsed and checked once, and again when it changes.

Every open page asks for the state each second; a record is a long JSON file with a digest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sparcal.files.json_record import read_record
from sparcal.files.settled import FileMark, file_mark
from sparcal.station.folder import StationFolder


@dataclass(frozen=True)
class RememberedFolder(StationFolder):
    """A station's folder that remembers what it has read; whoever is given a record leaves it as it is."""

    _read: dict[Path, tuple[FileMark, dict[str, Any]]] = field(default_factory=dict, compare=False, repr=False)

    def read_station(self) -> dict[str, Any]:
        """station.json, or an ArtifactError where there is none."""
        return self._remember(self.record, super().read_station)

    def read_lot(self, name: str) -> dict[str, Any]:
        """What is written about one lot, or a DataError that lists the lots there are."""
        return self._remember(self.lot(name) / "lot.json", lambda: super(RememberedFolder, self).read_lot(name))

    def read_lots(self) -> list[dict[str, Any]]:
        """What is written about every lot, oldest first."""
        records = [self._remember(path, partial(read_record, path, "lot")) for path in self.lots.glob("*/lot.json")]
        return sorted(records, key=lambda record: (record["created"], record["name"]))

    def _remember(self, path: Path, read: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        try:
            mark = file_mark(path)
        except OSError:
            return read()  # which says in words that it is not there
        known = self._read.get(path)
        if known is None or known[0] != mark:
            known = self._read[path] = (mark, read())
        return known[1]
