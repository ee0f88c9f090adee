"""From images of good parts to a lot in its folder, and from a station or a lot to another self-test."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from sparcal.artifacts import check_savable, kind_name
from sparcal.calibration.asked import asked_as, check_asked
from sparcal.calibration.calibrate import calibrate, preview
from sparcal.calibration.check import Check
from sparcal.calibration.defaults import MOST_PLANTED, PLANTED
from sparcal.calibration.held_out import HeldOut, left_out, not_seen, own_parts
from sparcal.calibration.inputs import CalibrationInputs
from sparcal.calibration.kept_rows import station_rows
from sparcal.calibration.outline import find_outline
from sparcal.calibration.planted_parts import plant_on
from sparcal.calibration.screening import ShownParts
from sparcal.calibration.self_test import SelfTest, self_test
from sparcal.calibration.thresholds import check_rate
from sparcal.corrections import STATION_REFERENCE
from sparcal.devices import float64_device
from sparcal.errors import DataError
from sparcal.files.hashing import file_digest
from sparcal.imaging.decode import ImageSource
from sparcal.imaging.encode import EncodedImage, encode_each, stranger
from sparcal.imaging.read import Failure
from sparcal.progress import Progress, shown_progress
from sparcal.settings import seed_number, switch, text, whole_number
from sparcal.sparc import MOST_NORMALS
from sparcal.station.fit import load_features, load_folds, plant_on_own
from sparcal.station.kept_images import keep_images, kept_images
from sparcal.station.lot_name import clean_name
from sparcal.station.lot_record import REFERENCE_FILE, SELF_TEST_FILE
from sparcal.station.lot_writing import lot_record, write_lot, write_lot_files
from sparcal.station.space import require_memory_to_plant, require_space_for_lot
from sparcal.types import Correction, Features

if TYPE_CHECKING:
    from sparcal.station.lot import Lot
    from sparcal.station.station import Station

LEAST_NORMALS = 2
PREVIEWED = 24  # planted defects of a look before calibration
LOT_SEED = 0


@dataclass(frozen=True)
class Request:
    """What was asked for: everything about a new lot but its images."""

    name: str
    correction: str | Correction
    false_reject: float
    operator: str | None
    activate: bool
    reason: str | None

    def __post_init__(self) -> None:
        check_rate(self.false_reject)
        clean_name(self.name)
        check_asked(self.correction)
        if not isinstance(self.correction, str):
            check_savable(self.correction)
        text(self.operator, "The operator", optional=True)
        switch(self.activate, "activate")
        text(self.reason, "The reason", optional=True)


def calibrate_lot(
    station: Station, sources: Sequence[ImageSource], request: Request, progress: Progress | None
) -> None:
    """Calibrate to a lot from its good parts, check, test, and write the lot."""
    from sparcal.station.self_test_page import write_self_test_page

    started = time.monotonic()
    station.folder.require_new_lot(request.name)
    station.folder.require_unchanged(station.digest)
    own_reference = station.folder.references / station.record.reference / REFERENCE_FILE
    require_space_for_lot(station.path, station.grids, normals=len(sources), reference=own_reference)
    inputs = inputs_of(station)
    parts = encode_parts(station, sources, inputs.reference)
    correction, settings = asked_as(request.correction)
    if not isinstance(correction, str):  # whether what it learns can be saved is seen before the work
        check_savable(copy.copy(correction).fit(parts.features, inputs.reference))
    with shown_progress(progress, f"Calibrating lot {request.name}") as told:
        rate, seed = request.false_reject, LOT_SEED
        outcome = calibrate(
            inputs, parts, correction=correction, settings=settings, false_reject=rate, seed=seed, progress=told
        )
    with station.folder.workplace() as temporary:
        files = write_lot_files(temporary, outcome, own_reference) | keep_images(temporary, sources)
        if outcome.self_test is not None:
            page = write_self_test_page(
                temporary / SELF_TEST_FILE, f"Lot {request.name}", outcome.self_test, outcome.planted.crops
            )
            files[page.name] = file_digest(page)
        record = lot_record(request.name, outcome, parts.images, of=station.record, station=station.digest)
        record = replace(
            record,
            operator=request.operator,
            asked=correction if isinstance(correction, str) else kind_name(type(correction)),
            files=files,
            seconds=round(time.monotonic() - started, 3),
        )
        write_lot(station.folder, temporary, record, activate=request.activate, reason=request.reason)


def look_at(station: Station, sources: Sequence[ImageSource], false_reject: float) -> tuple[Check, ...]:
    """The checks of calibration images, and what a calibration may be expected to do."""
    inputs = inputs_of(station)
    return preview(inputs, encode_parts(station, sources, inputs.reference, n=PREVIEWED), false_reject)


def test_again(station: Station, lot: Lot, n: int, seed: int) -> SelfTest:
    """The self-test of a lot, or of the station's own reference, with n new plain defects."""
    whole_number(n, "The number of planted defects", most=MOST_PLANTED)  # planting asks for at least one
    seed_number(seed, "seed")
    require_memory_to_plant(station.grids, n)
    limits = lot.threshold.value, lot.pixel_threshold.value
    floor = lot.threshold.false_reject or 0.0
    inputs = inputs_of(station)
    if lot.name is None:
        return _test_station(station, inputs, limits, floor, n, seed)
    sources = kept_images(lot.folder, lot.record.files)
    if not sources:
        raise DataError(f"The lot {lot.name!r} has kept no images of its parts to test it on: calibrate it again.")
    shown = encode_parts(station, sources, inputs.reference, n=n, seed=seed)
    if lot.record.self_test is not None:  # parts that stand alone under their light carry none that count
        counted = {one.part for one in lot.record.self_test.defects}
        shown = replace(shown, planted=shown.planted[shown.planted.lying_on(counted)])
    return self_test(shown.planted, _held_out(lot, inputs, shown), thresholds=limits, floor=floor, seed=seed)


def _test_station(
    station: Station, inputs: CalibrationInputs, limits: tuple[float, float], floor: float, n: int, seed: int
) -> SelfTest:
    folder = station.folder.references / station.record.reference
    images = kept_images(folder, station.record.files)
    if not images:
        raise DataError(
            f"The station {station.path} has kept no images to test it on, because version 0.1 fitted it: fit it again."
        )
    parts = plant_on_own(station.encoder, inputs.reference, images, n=n, seed=seed, workers=station.workers)
    held = own_parts(inputs.detector, inputs.reference, inputs.folds, station.record.tested, parts)
    return self_test(parts, held, thresholds=limits, floor=floor, seed=seed)


def _held_out(lot: Lot, inputs: CalibrationInputs, shown: ShownParts) -> HeldOut:
    if lot.record.correction == STATION_REFERENCE:
        return not_seen(lot.calibrated, shown.features, shown.geometries, shown.planted)
    held = left_out(
        lot.calibrated,
        inputs.reference,
        shown.features,
        shown.geometries,
        station_rows=station_rows(inputs.detector),
        planted=shown.planted,
        workers=inputs.workers,
    )
    if held is None:
        raise DataError(
            f"The lot {lot.name!r} rests on {len(shown.images)} images, too few to leave one out: calibrate on at least 3."
        )
    return held


def inputs_of(station: Station) -> CalibrationInputs:
    """The station as a calibration sees it, with its features in memory."""
    store = station.store()
    hashes = [digest for _, digest in station.record.images]
    return CalibrationInputs(
        detector=station.detector,
        reference=load_features(store, hashes, float64_device(station.device)),
        geometries=[store.note(key).geometry for key in hashes],
        hashes=hashes,
        own=(torch.tensor(station.record.own), torch.tensor(station.record.own_peak)),
        folds=load_folds(station.folder.references / station.record.reference, station.record.files, len(hashes)),
        workers=station.workers,
    )


def encode_parts(
    station: Station, sources: Sequence[ImageSource], reference: Features, *, n: int = PLANTED, seed: int = LOT_SEED
) -> ShownParts:
    """The normals of a lot, encoded as they are and with planted defects."""
    images = encode_normals(station, sources)
    outline = find_outline(reference)
    planted = plant_on(station.encoder, sources, outline=outline.cells, n=n, seed=seed, workers=station.workers)
    return ShownParts(images, planted, outline)


def check_count(normals: int) -> None:
    """Refuse fewer and more good parts than a lot can rest on."""
    if normals < LEAST_NORMALS:
        raise DataError(
            f"A lot needs at least {LEAST_NORMALS} calibration images, got {normals}: show it 2 to 32 good parts."
        )
    if normals > MOST_NORMALS:
        raise DataError(
            f"A lot takes at most {MOST_NORMALS} calibration images, got {normals}: show it fewer, 8 are usually enough."
        )


def encode_normals(station: Station, sources: Sequence[ImageSource]) -> list[EncodedImage]:
    """Every normal must be usable: a lot rests on a few images."""
    check_count(len(sources))
    encoded = []
    for item in encode_each(station.encoder, sources, workers=station.workers):
        if not isinstance(item, EncodedImage):
            raise DataError(item.reason if isinstance(item, Failure) else f"{item.path} could not be encoded.")
        reason = stranger(item, station.grids, station.record.kinds)
        if reason is not None:
            raise DataError(reason)
        encoded.append(item)
    return encoded
