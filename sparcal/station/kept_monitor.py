"""A monitor whose readings are kept in a file, so that a watch which is started again knows all that the last one knew."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from sparcal.calibration.sight import PartReading
from sparcal.files.json_record import now

if TYPE_CHECKING:
    from sparcal.station.judgement import Judgement
    from sparcal.station.lot import Lot
    from sparcal.station.monitor import Monitor

MONITOR_FILE = "monitor.jsonl"


class KeptMonitor:
    """The monitor of one lot, and which parts it has seen.

    Args:
        path: a file of one reading per line, of this lot and of others; made when there is none.
    """

    def __init__(self, lot: Lot, path: Path) -> None:
        self.monitor: Monitor = lot.monitor()
        self._path = path
        self._lot = {"lot": lot.name, "created": lot.record.created}
        self._parts: list[tuple[str, str]] = []
        for line in _lines(path):
            if all(line.get(name) == value for name, value in self._lot.items()):
                self._take(line)

    def watch(self, judgement: Judgement) -> bool:
        """Look at one more judged part; True at the moment that a shift is noticed."""
        reading = self.monitor.read(judgement)
        if reading is None:
            return False
        line = {**self._lot, "at": now(), "path": str(judgement.path), "reading": reading.to_json()}
        with self._path.open("ab+") as stream:
            stream.write((_break_after_torn(stream) + json.dumps(line) + "\n").encode())
        return self._take(line)

    def facts(self) -> dict[str, Any] | None:
        """The shift that was noticed, for programs and people; None while parts look as they should."""
        shift = self.monitor.shift
        if shift is None:
            return None
        at, first = self._parts[shift.first]
        return {
            "lot": self._lot["lot"],
            "since": at,
            "first": first,
            "parts": len(self._parts) - shift.first,
            "words": list(shift.words),
            "sentence": f"Since {first} parts look different: {shift.what}. Calibrate a new lot?",
        }

    def _take(self, line: dict[str, Any]) -> bool:
        self._parts.append((line["at"], line["path"]))
        return self.monitor.take(PartReading.from_json(line["reading"])) is not None


def _break_after_torn(stream: BinaryIO) -> str:
    """A line break where a kill cut the last line short: what is added now must not be lost with it."""
    if stream.seek(0, os.SEEK_END) == 0:
        return ""
    stream.seek(-1, os.SEEK_END)
    return "" if stream.read(1) == b"\n" else "\n"


def _lines(path: Path) -> list[dict[str, Any]]:
    """What was kept; a line that a kill cut short is passed over."""
    found = []
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []:
        with suppress(ValueError):
            found.append(json.loads(text))
    return found
