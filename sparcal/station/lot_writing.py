"""The writing of a lot: its files, its record, and the moment in which it appears."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from sparcal.artifacts import save
from sparcal.calibration.calibrate import CalibratedLot
from sparcal.corrections import STATION_REFERENCE
from sparcal.files.hashing import file_digest
from sparcal.files.json_record import now, write_record
from sparcal.files.versions import versions
from sparcal.imaging.encode import EncodedImage
from sparcal.station.folder import StationFolder
from sparcal.station.lot_record import CORRECTION_FILE, MAPS_FILE, REFERENCE_FILE, LotRecord, Pair
from sparcal.station.record import StationRecord


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
        maps = {name: values.to("cpu", torch.float32).contiguous() for name, values in outcome.maps.items()}
        save_file(maps, folder / MAPS_FILE)
    names = (CORRECTION_FILE, REFERENCE_FILE, MAPS_FILE)
    return {name: file_digest(folder / name) for name in names if (folder / name).exists()}


def write_lot(folder: StationFolder, temporary: Path, record: LotRecord, *, activate: bool, reason: str | None) -> None:
    """Let the lot in `temporary` appear.

    Args:
        activate: whether it becomes the active one; past a stop only with a reason, which the history keeps.
    """
    write_record(temporary / "lot.json", "lot", record.to_json())
    assert record.name is not None
    with folder.locked():
        folder.move_in(temporary, folder.lot(record.name))
        stopped = record.verdict == "stop"
        active = activate and (not stopped or bool(reason and reason.strip()))
        since = folder.set_active(record.name) if active else None
        details = {"lot": record.name, "operator": record.operator, "verdict": record.verdict, "active": active}
        folder.log("calibrate", details | ({"reason": reason} if active and stopped else {}), time=since)


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


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without links
        shutil.copyfile(source, target)


def _floats(values: Tensor | None) -> tuple[float, ...]:
    return () if values is None else tuple(values.tolist())
