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
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparcal.errors import ArtifactError, BusyError, DataError, NoStationError, PlaceError
from sparcal.files.atomic import require_folder, require_folder_place, settle, sync_folder
from sparcal.files.chained_lines import add_line, read_lines
from sparcal.files.full_disk import needs_room
from sparcal.files.json_record import now, read_record
from sparcal.files.locks import exclusive
from sparcal.settings import file_path
from sparcal.station.lot_name import folder_name
from sparcal.station.pointer import active_lot_name, point_at, set_by_hand, thresholds_by_hand, why_past_stop

HISTORY_FILE = "history.jsonl"
AHEAD = 1  # files that may be there before their line of the history: a kill between the two leaves one
_TEMPORARY = ".tmp-"
_OWNER = ".owner"


@dataclass(frozen=True)
class StationFolder:
    """The files of one station."""

    root: Path

    def __post_init__(self) -> None:
        file_path(self.root, "A station's path")

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

    def require_new_lot(self, name: str) -> None:
        """A DataError where a lot has that name already."""
        if self.lot(name).exists():
            raise DataError(
                f"The station {self.root} has a lot {name!r} already, and lots never change: take another name."
            )

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

    def require_free(self) -> None:
        """A PlaceError where something else is than a place for a new station."""
        if self.record.exists():
            raise PlaceError(
                f"There is a station at {self.root} already: choose another folder, or add images to it "
                "(sparcal fit --add, Station.add)."
            )
        require_folder_place(self.root, "A station")
        there = self.root.iterdir() if self.root.is_dir() else ()
        foreign = [p.name for p in there if not _is_ours(p.name)]
        if foreign:
            raise PlaceError(
                f"A station needs a new or empty folder, got {self.root} with {foreign[0]} in it: choose another place."
            )

    def prepare(self) -> None:
        """Make room for a new station."""
        self.require_free()
        require_folder(self.root, "A station")

    def read_station(self) -> dict[str, Any]:
        """station.json, or an ArtifactError where there is none."""
        if not self.record.is_file() and (self.root / HISTORY_FILE).is_file():
            raise ArtifactError(f"The station {self.root} has lost its {self.record.name}: restore it from a copy.")
        if not self.record.is_file():
            raise NoStationError(
                f"There is no station at {self.root}: check the path, or make one with "
                f"sparcal fit NORMALS --station {self.root}."
            )
        return read_record(self.record, "station")

    def require_unchanged(self, digest: str) -> None:
        """Raise ArtifactError where the station is no longer the one whose record has this digest."""
        if self.read_station()["digest"] != digest:
            raise ArtifactError(f"The station {self.root} has changed since it was opened: open it again.")

    def read_lots(self) -> list[dict[str, Any]]:
        """What is written about every lot that can be read, oldest first; `damaged_lots` has the others."""
        records = [record for record in map(self._try_lot, self._lot_folders()) if isinstance(record, dict)]
        return sorted(records, key=lambda record: (record["created"], record["name"]))

    def damaged_lots(self) -> dict[str, str]:
        """One sentence for each lot whose record cannot be read, by its folder's name."""
        tried = {path.name: self._try_lot(path) for path in self._lot_folders()}
        return {name: str(found) for name, found in sorted(tried.items()) if isinstance(found, ArtifactError)}

    def read_lot(self, name: str) -> dict[str, Any]:
        """What is written about one lot, or a DataError that lists the lots there are."""
        path = self.lot(name)
        if not path.is_dir():
            names = ", ".join(record["name"] for record in self.read_lots()) or "none yet"
            raise DataError(f"The station {self.root} has no lot {name!r}; it has {names}.")
        return self._lot_record(path)

    def _lot_folders(self) -> list[Path]:
        return [path for path in self.lots.iterdir() if path.is_dir()] if self.lots.is_dir() else []

    def _lot_record(self, path: Path) -> dict[str, Any]:
        """The record in a lot's folder, which must be about the lot that the folder stands for."""
        record = read_record(path / "lot.json", "lot")
        name = record.get("name")
        if not isinstance(name, str) or folder_name(name) != path.name:
            raise ArtifactError(
                f"{path / 'lot.json'} was expected to describe the lot of its folder, got {name!r}: restore it from a copy."
            )
        return record

    def _try_lot(self, path: Path) -> dict[str, Any] | ArtifactError:
        try:
            return self._lot_record(path)
        except ArtifactError as error:  # one damaged lot must not hide the others
            return error

    def active(self) -> str | None:
        """The lot that scores when none is named; None for the station's own reference."""
        return active_lot_name(self.root / "active", self.history(), self.lot)

    def set_active(self, name: str | None) -> str:
        """Point at a lot, or at the station's own reference; call it under `locked`. Returns since when."""
        return point_at(self.root / "active", name, self.history())

    def activate(self, name: str | None, operator: str | None, reason: str | None = None) -> None:
        """Point at a lot that exists, or at the station's own reference, and note who did; past a stop, also why."""
        record = {"name": None} if name is None else self.read_lot(name)
        why = why_past_stop(record, reason)
        with self.locked():
            since = self.set_active(record["name"])
            self.log("activate", {"lot": record["name"], "operator": operator, **why}, time=since)

    def set_thresholds(self, lot: str | None, chosen: Mapping[str, float], operator: str | None) -> None:
        """Keep thresholds that somebody chose, and note who did; none of them takes the calibrated ones back."""
        with self.locked():
            time = set_by_hand(self.override(lot), lot, chosen, self.history(), operator=operator)
            self.log("threshold", {"lot": lot, "operator": operator, **chosen}, time=time)

    def thresholds(self, lot: str | None) -> dict[str, float]:
        """The thresholds that somebody chose for a lot, or for the station's own reference, by kind."""
        return thresholds_by_hand(self.override(lot), lot, self.history())

    def log(self, event: str, details: Mapping[str, object], *, time: str | None = None) -> None:
        """Add one line to the history; call it under `locked`."""
        add_line(self.root / HISTORY_FILE, {"time": time or now(), "event": event, **details})

    def history(self) -> list[dict[str, Any]]:
        """Who did what when, oldest first; a line that a kill cut short is passed over."""
        return read_lines(self.root / HISTORY_FILE).entries

    def history_damage(self) -> str | None:
        """One sentence where the history is not what was written; stations and lots judge without it."""
        path = self.root / HISTORY_FILE
        kept = read_lines(path)
        untold = self._untold(kept.entries)
        if kept.entries and not kept.damaged and len(untold) <= AHEAD:
            return None
        where = f"no line about {untold[0]} and {len(untold) - 1} more" if untold and kept.entries else "none"
        where = f"changed or missing lines at line {kept.damaged[0]}" if kept.damaged else where
        return (
            f"The history {path} was expected to be as it was written, got {where}: restore it from a copy; "
            "what judges does not depend on it."
        )

    def _untold(self, history: list[dict[str, Any]]) -> list[str]:
        """Files that are there though no line of the history tells how they came."""
        told = {folder_name(str(line["lot"])) for line in history if line.get("event") == "calibrate"}
        chosen = {self.override(line.get("lot")).name for line in history if line.get("event") == "threshold"}
        lots = {path.name: path for path in self._lot_folders()}
        by_hand = {path.name: path for path in self.overrides.glob("[!.]*")}
        untold = [lots[name] for name in sorted(lots.keys() - told)]
        return [
            str(path.relative_to(self.root))
            for path in [*untold, *(by_hand[n] for n in sorted(by_hand.keys() - chosen))]
        ]

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
            if not (self.references / str(named)).is_dir():
                return  # the record may be another station's: what it does not name may be all that there is
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
