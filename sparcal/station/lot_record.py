"""What is written about a lot, and the writing of it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from sparcal.artifacts import save
from sparcal.calibration.calibrate import CalibratedLot
from sparcal.calibration.checks import Check, Verdict, worst
from sparcal.calibration.selection import Choice, Trial
from sparcal.calibration.self_test import SelfTest
from sparcal.calibration.thresholds import Threshold, find_threshold, histogram
from sparcal.corrections import STATION_REFERENCE
from sparcal.files.hashing import file_digest
from sparcal.files.json_record import now, write_record
from sparcal.files.versions import versions
from sparcal.imaging.camera_format import CameraFormat
from sparcal.imaging.encode import EncodedImage
from sparcal.station.folder import StationFolder
from sparcal.station.record import StationRecord

CORRECTION_FILE = "correction.safetensors"
REFERENCE_FILE = "reference.safetensors"
MAPS_FILE = "maps.safetensors"
SELF_TEST_FILE = "self-test.html"


@dataclass(frozen=True)
class Pair:
    """Scores of the station's own good parts, out of fold, and of the lot's, left out in turn."""

    own: tuple[float, ...]
    lot: tuple[float, ...]

    def histogram(self) -> dict[str, list[float]]:
        """Bin edges, and how many of each fall between them."""
        return histogram(self.own, self.lot)


@dataclass(frozen=True)
class LotRecord:
    """Everything that is known about a lot, as it stands in its lot.json.

    Args:
        name: None for the station's own reference, before any lot.
        station: digest of the station's record at the time.
        asked: the correction that was asked for; "auto" lets the evidence decide.
        images: path and SHA-256 of each calibration image.
        kinds: (H, W, grey) of the images it was made from; others are not scored.
        image, pixel: evidence for the two thresholds; for pixels, the highest pixel of each part's map.
        base: image scores of the same parts by the station's own reference.
        outside: what a map says where the encoder never looked.
        files: SHA-256 of each file beside lot.json.
        self_test: None where too few parts were shown, and in lots of version 0.1.
    """

    name: str | None
    created: str
    operator: str | None
    station: str
    host: str
    encoder: str
    correction: str
    asked: str
    choice: Choice
    images: tuple[tuple[str, str], ...]
    kinds: tuple[CameraFormat, ...]
    image_threshold: Threshold
    pixel_threshold: Threshold
    image: Pair
    pixel: Pair
    base: Pair
    checks: tuple[Check, ...]
    outside: float
    seconds: float
    versions: dict[str, str]
    files: dict[str, str] = field(default_factory=dict)
    self_test: SelfTest | None = None

    @property
    def verdict(self) -> Verdict:
        """The gravest verdict of the checks."""
        return worst(self.checks)

    def to_json(self) -> dict[str, Any]:
        """Plain values, with the histograms; `from_json` gives the same record back."""
        shown = {"image": self.image.histogram(), "pixel": self.pixel.histogram()}
        tested = None if self.self_test is None else self.self_test.to_json()
        return {**asdict(self), "verdict": self.verdict, "histogram": shown, "self_test": tested}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> LotRecord:
        """The record that `to_json` wrote."""
        tested = data.get("self_test")
        image, pixel, base = (
            Pair(tuple(data[name]["own"]), tuple(data[name]["lot"])) for name in ("image", "pixel", "base")
        )
        return cls(
            **{name: data[name] for name in _PLAIN},
            image=image,
            pixel=pixel,
            base=base,
            choice=_choice(data["choice"]),
            images=tuple((path, digest) for path, digest in data["images"]),
            kinds=tuple((h, w, grey) for h, w, grey in data["kinds"]),
            image_threshold=Threshold.from_json(data["image_threshold"]),
            pixel_threshold=Threshold.from_json(data["pixel_threshold"]),
            checks=tuple(Check.from_json(check) for check in data["checks"]),
            self_test=None if tested is None else SelfTest.from_json(tested),
        )


_PLAIN = (
    "name", "created", "operator", "station", "host", "encoder", "correction", "asked", "outside", "seconds",
    "versions", "files",
)  # fmt: skip


def _choice(data: dict[str, Any]) -> Choice:
    """A choice as it was written; version 0.1 compared corrections by other figures, which are passed over."""
    trials = tuple(Trial(**one) for one in data["trials"] if "stands_out" in one)
    return Choice(data["correction"], data.get("settings", {}), data["helps"], data["sentence"], trials)


def write_lot_files(folder: Path, outcome: CalibratedLot, own_reference: Path) -> dict[str, str]:
    """Write correction, reference and maps; returns the SHA-256 of each file.

    Args:
        own_reference: file of the station's own reference, shared by lots that keep it.
    """
    if outcome.taken.name == STATION_REFERENCE:
        _link(own_reference, folder / REFERENCE_FILE)
    else:
        save(outcome.taken.calibrated.correction, folder / CORRECTION_FILE)
        save(outcome.taken.calibrated.detector, folder / REFERENCE_FILE)
    if outcome.maps:
        save_file({name: values.float().contiguous() for name, values in outcome.maps.items()}, folder / MAPS_FILE)
    names = (CORRECTION_FILE, REFERENCE_FILE, MAPS_FILE)
    return {name: file_digest(folder / name) for name in names if (folder / name).exists()}


def write_lot(folder: StationFolder, temporary: Path, record: LotRecord, *, activate: bool | None) -> None:
    """Let the lot in `temporary` appear.

    Args:
        activate: whether it becomes the active one; None means unless a check says stop.
    """
    write_record(temporary / "lot.json", "lot", record.to_json())
    assert record.name is not None
    with folder.locked():
        folder.move_in(temporary, folder.lot(record.name))
        active = activate if activate is not None else record.verdict != "stop"
        if active:
            folder.set_active(record.name)
        details = {"lot": record.name, "operator": record.operator, "verdict": record.verdict, "active": active}
        folder.log("calibrate", details)


def lot_record(
    name: str, outcome: CalibratedLot, normals: Sequence[EncodedImage], *, of: StationRecord, station: str
) -> LotRecord:
    """What is written about a new lot, but for who asked for what, its files, and how long it took.

    Args:
        of: the station's record, and `station` its digest.
    """
    taken = outcome.taken
    lot_image, lot_peak = (None, None) if taken.lot is None else (taken.lot.good.image, taken.lot.good.peak)
    return LotRecord(
        name=name,
        created=now(),
        operator=None,
        station=station,
        host=of.host,
        encoder=of.encoder_id,
        correction=taken.name,
        asked=taken.name,
        choice=outcome.choice,
        images=tuple((str(one.path), one.sha256) for one in normals),
        kinds=tuple(sorted({one.kind for one in normals})),
        image_threshold=outcome.thresholds[0],
        pixel_threshold=outcome.thresholds[1],
        image=Pair(_floats(taken.own[0]), _floats(lot_image)),
        pixel=Pair(_floats(taken.own[1]), _floats(lot_peak)),
        base=Pair(of.own, _floats(outcome.lot_base)),
        checks=outcome.checks,
        outside=of.outside,
        seconds=0.0,
        versions=versions(),
        self_test=outcome.self_test,
    )


def own_record(of: StationRecord, station: str, false_reject: float) -> LotRecord:
    """The station's own reference, described as a lot without a name."""
    sentence = "Not calibrated to any lot: the station's own reference scores."
    image, pixel = Pair(of.own, ()), Pair(of.own_peak, ())
    return LotRecord(
        name=None,
        created=of.created,
        operator=of.operator,
        station=station,
        host=of.host,
        encoder=of.encoder_id,
        correction=STATION_REFERENCE,
        asked=STATION_REFERENCE,
        choice=Choice(STATION_REFERENCE, {}, None, sentence, ()),
        images=(),
        kinds=of.kinds,
        image_threshold=find_threshold(of.own, [], false_reject),
        pixel_threshold=find_threshold(of.own_peak, [], false_reject),
        image=image,
        pixel=pixel,
        base=image,
        checks=(),
        outside=of.outside,
        seconds=of.seconds,
        versions=of.versions,
        files=of.files,
        self_test=of.self_test,
    )


def _floats(values: Tensor | None) -> tuple[float, ...]:
    return () if values is None else tuple(values.tolist())


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without links
        shutil.copyfile(source, target)
