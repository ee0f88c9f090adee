"""The station's files as the server reads them: each is parsed and checked once, and again when it changes.

Every open page asks for the state each second; a record is a long JSON file with a digest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from sparcal.files.settled import FileMark, file_mark
from sparcal.station.folder import HISTORY_FILE, StationFolder

Known = TypeVar("Known")


@dataclass(frozen=True)
class RememberedFolder(StationFolder):
    """A station's folder that remembers what it has read; whoever is given a record leaves it as it is."""

    _read: dict[Path, tuple[FileMark, Any]] = field(default_factory=dict, compare=False, repr=False)

    def read_station(self) -> dict[str, Any]:
        """station.json, or an ArtifactError where there is none."""
        return self._remember(self.record, super().read_station)

    def history(self) -> list[dict[str, Any]]:
        """Who did what when, oldest first."""
        return self._remember(self.root / HISTORY_FILE, super().history)

    def _lot_record(self, path: Path) -> dict[str, Any]:
        return self._remember(path / "lot.json", partial(super()._lot_record, path))

    def _remember(self, path: Path, read: Callable[[], Known]) -> Known:
        try:
            mark = file_mark(path)
        except OSError:
            return read()  # which says in words that it is not there
        known = self._read.get(path)
        if known is None or known[0] != mark:
            known = self._read[path] = (mark, read())
        remembered: Known = known[1]
        return remembered
