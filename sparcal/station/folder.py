"""A station's folder: where each thing lies, what is whole, what is left over, and who did what when.

    station.json          what was fitted; without it there is no station
    features/             training features, see `sparcal.station.features`
    references/           the station's own reference, fitted on uncorrected features
    lots/NAME/            one calibrated lot each, never changed once it is there
    overrides/NAME.json   thresholds that somebody set by hand
    active                the lot that scores when none is named
    history.jsonl         who did what when
    .lock                 held for the moment in which something appears
    .fit.lock             held while training images are encoded
    .tmp-*                work that has not finished

Everything is written beside its place and renamed, so that a reader sees all of it or nothing, whatever was killed
when. This module needs no torch: listing lots is quick.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparcal.errors import ArtifactError, BusyError, DataError
from sparcal.files.atomic import settle, sync_folder
from sparcal.files.full_disk import needs_room
from sparcal.files.json_record import now, read_json, read_record, write_json
from sparcal.files.locks import exclusive
from sparcal.files.names import json_text
from sparcal.station.lot_name import folder_name

_TEMPORARY = ".tmp-"
_OWNER = ".owner"


@dataclass(frozen=True)
class StationFolder:
    """The files of one station."""

    root: Path

    @property
    def record(self) -> Path:
        """What the station is."""
        return self.root / "station.json"

    @property
    def features(self) -> Path:
        """The features of its training images."""
        return self.root / "features"

    @property
    def references(self) -> Path:
        """What was fitted on them."""
        return self.root / "references"

    @property
    def lots(self) -> Path:
        """One folder per lot."""
        return self.root / "lots"

    @property
    def overrides(self) -> Path:
        """Thresholds that somebody set by hand."""
        return self.root / "overrides"

    def lot(self, name: str) -> Path:
        """Where the lot of that name lies or would lie."""
        return self.lots / folder_name(name)

    def override(self, name: str | None) -> Path:
        """Where thresholds set by hand for a lot, or for the station's own reference, lie or would lie."""
        return self.overrides / (f"{folder_name(name)}.json" if name is not None else "own.reference")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One process at a time makes something appear."""
        with needs_room(self.root), exclusive(self.root / ".lock"):
            yield

    @contextmanager
    def fitting(self) -> Iterator[None]:
        """One process at a time encodes training images."""
        with needs_room(self.root), exclusive(self.root / ".fit.lock", wait_s=0):
            yield

    def prepare(self) -> None:
        """Make room for a new station, or a DataError where something else is."""
        if self.root.exists() and not self.root.is_dir():
            raise DataError(f"A station needs a folder, got the file {self.root}: choose another place.")
        if self.record.exists():
            raise DataError(
                f"There is a station at {self.root} already: choose another folder, or add images to it "
                "(sparcal fit --add, Station.add)."
            )
        foreign = [p.name for p in self.root.iterdir() if not _is_ours(p.name)] if self.root.exists() else []
        if foreign:
            raise DataError(
                f"A station needs a new or empty folder, got {self.root} with {foreign[0]} in it: choose another place."
            )
        self.root.mkdir(parents=True, exist_ok=True)

    def read_station(self) -> dict[str, Any]:
        """station.json, or an ArtifactError where there is none."""
        if not self.record.is_file():
            raise ArtifactError(
                f"There is no station at {self.root}: check the path, or make one with "
                f"sparcal fit NORMALS --station {self.root}."
            )
        return read_record(self.record, "station")

    def read_lots(self) -> list[dict[str, Any]]:
        """What is written about every lot, oldest first."""
        folders = [path for path in self.lots.iterdir() if path.is_dir()] if self.lots.is_dir() else []
        records = [read_record(path / "lot.json", "lot") for path in folders]
        return sorted(records, key=lambda record: (record["created"], record["name"]))

    def read_lot(self, name: str) -> dict[str, Any]:
        """What is written about one lot, or a DataError that lists the lots there are."""
        path = self.lot(name) / "lot.json"
        if not path.is_file():
            names = ", ".join(record["name"] for record in self.read_lots()) or "none yet"
            raise DataError(f"The station {self.root} has no lot {name!r}; it has {names}.")
        return read_record(path, "lot")

    def active(self) -> str | None:
        """The lot that scores when none is named; None for the station's own reference."""
        path = self.root / "active"
        name = read_json(path).get("lot") if path.is_file() else None
        return None if name is None else str(name)

    def set_active(self, name: str | None) -> None:
        """Point at a lot, or at the station's own reference; call it under `locked`."""
        write_json(self.root / "active", {"lot": name, "since": now()})

    def activate(self, name: str | None, operator: str | None) -> None:
        """Point at a lot that exists, or at the station's own reference, and note who did."""
        lot = None if name is None else str(self.read_lot(name)["name"])
        with self.locked():
            self.set_active(lot)
            self.log("activate", {"lot": lot, "operator": operator})

    def log(self, event: str, details: Mapping[str, object]) -> None:
        """Add one line to the history."""
        line = json_text({"time": now(), "event": event, **details})
        handle = os.open(self.root / "history.jsonl", os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        try:
            size = os.fstat(handle).st_size
            torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"  # a writer was killed within its line
            os.write(handle, (("\n" if torn else "") + line + "\n").encode())
            os.fsync(handle)
        finally:
            os.close(handle)

    def history(self) -> list[dict[str, Any]]:
        """Who did what when, oldest first; a line that a kill cut short is passed over."""
        path = self.root / "history.jsonl"
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
        found = []
        for line in lines:
            with contextlib.suppress(ValueError):
                found.append(json.loads(line))
        return found

    @contextmanager
    def workplace(self) -> Iterator[Path]:
        """A temporary folder, for `move_in`; it vanishes with the block."""
        with self.locked():
            temporary = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=self.root))
            held = contextlib.ExitStack()
            held.enter_context(exclusive(temporary / _OWNER))  # tells sweepers that somebody is at work here
        try:
            with needs_room(self.root), held:
                yield temporary
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def move_in(self, temporary: Path, target: Path) -> None:
        """Let the finished folder appear as `target`, read-only; call it under `locked`.

        Two writers may work at once: whoever comes first has the name, and the other one a DataError.
        """
        if target.exists():
            raise DataError(f"There is something at {target} already, and it never changes: choose another name.")
        (temporary / _OWNER).unlink()
        for path in temporary.iterdir():
            settle(path, 0o444)
        temporary.chmod(0o755)
        target.parent.mkdir(exist_ok=True)
        temporary.rename(target)
        sync_folder(target.parent)

    def sweep(self) -> None:
        """Remove what killed writers left behind; what a living one is writing stays, as does a read-only folder."""
        with contextlib.suppress(BusyError, ArtifactError, OSError), self.fitting():
            _remove_drafts(self.features)
            self._remove_old_references()
        with contextlib.suppress(BusyError, OSError), exclusive(self.root / ".lock", wait_s=0):
            for folder in (self.root, self.overrides):
                _remove_drafts(folder)
            for temporary in self.root.glob(f"{_TEMPORARY}*"):
                with contextlib.suppress(BusyError), exclusive(temporary / _OWNER, wait_s=0):
                    shutil.rmtree(temporary, ignore_errors=True)

    def _remove_old_references(self) -> None:
        """References that station.json does not name; call it under `fitting`."""
        if self.record.is_file() and self.references.is_dir():
            named = read_record(self.record, "station")["reference"]
            for path in self.references.iterdir():
                if path.name != named:
                    shutil.rmtree(path, ignore_errors=True)


def _is_ours(name: str) -> bool:
    known = {"features", "references", ".lock", ".fit.lock"}
    return name in known or name.startswith(_TEMPORARY) or (name.startswith(".") and name.endswith(".tmp"))


def _remove_drafts(folder: Path) -> None:
    for pattern in (".*.tmp", ".*.draft"):
        for path in folder.glob(pattern):
            path.unlink(missing_ok=True)
