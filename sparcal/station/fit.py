"""From a folder of good parts to a station: encode what is new, fit the reference, score the parts out of fold."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors.torch import load_file, save_file

from sparcal.artifacts import check_savable, is_foreign, save
from sparcal.calibration.check import Check
from sparcal.calibration.defaults import FALSE_REJECT, PLANTED
from sparcal.calibration.held_out import Folds, PartScores, make_folds, own_parts, own_scores, plain_folds, spaced
from sparcal.calibration.inputs import CalibrationInputs
from sparcal.calibration.outline import find_outline
from sparcal.calibration.planted_parts import PlantedParts, plant_on
from sparcal.calibration.self_test import SelfTest, self_test
from sparcal.calibration.station_checks import check_twins, check_unlike
from sparcal.calibration.thresholds import find_threshold
from sparcal.corrections import Identity
from sparcal.devices import encoder_device, float64_device
from sparcal.feature_checks import check_scores
from sparcal.files.hashing import file_digest
from sparcal.files.json_record import now, understood, write_record
from sparcal.files.verified import FIT_AGAIN, verified
from sparcal.files.versions import versions
from sparcal.imaging.decode import ImageSource
from sparcal.imaging.maps import outside_value
from sparcal.progress import Progress
from sparcal.score import CalibratedDetector
from sparcal.station.features import FeatureStore
from sparcal.station.folder import StationFolder
from sparcal.station.intake import FEWEST_IMAGES, Intake
from sparcal.station.kept_images import keep_images, kept_images
from sparcal.station.lot_record import REFERENCE_FILE, SELF_TEST_FILE
from sparcal.station.record import StationRecord
from sparcal.station.space import require_working_memory
from sparcal.types import Detector, Encoder, Features

_Result = TypeVar("_Result")

FOLDS_FILE = "folds.safetensors"
KEPT_PARTS = 16  # of the station's, so that it can be tested again
STEPS_OF_FITTING = 4  # the reference, its folds, the scores of its own parts, the self-test


def fit_reference(
    folder: StationFolder,
    store: FeatureStore,
    host: tuple[Encoder, Detector],
    intake: Intake,
    about: dict[str, Any],
    *,
    workers: int = 1,
    progress: Progress | None = None,
) -> None:
    """Fit the station's own reference on all images, score them out of fold, test it, and write station.json.

    Args:
        host: the detector's settings are used, its state is not.
        about: who, which host and which encoder; see StationRecord.
    """
    started, step = time.monotonic(), _steps(progress)
    encoder, detector = host
    names, keys = zip(*intake.images, strict=True)
    features = load_features(store, keys, float64_device(encoder_device(encoder)))
    geometries = [store.note(key).geometry for key in keys]
    if is_foreign(type(detector)):
        _try_out(detector, features[:FEWEST_IMAGES])
    fitted = step(copy.copy(detector).fit(features))
    folds = step(make_folds(detector, features, workers=workers))
    own = step(own_scores(CalibratedDetector(Identity(), fitted), features, geometries, folds, workers=workers))
    inputs = CalibrationInputs(fitted, features, geometries, keys, (own.image, own.peak), folds, workers)
    with folder.workplace() as temporary:
        files = _write_fitted(temporary, fitted, folds)
        sources = {**_kept_earlier(folder), **intake.sources}
        numbers, tested = step(_first_test(temporary, encoder, inputs, sources, files))
        record = StationRecord(
            **about,
            created=now(),
            grids=features.grids,
            images=intake.images,
            left_out=intake.left_out,
            kinds=tuple(sorted({store.note(key).kind for key in keys})),
            reference=files[REFERENCE_FILE][:24],
            files=files,
            own=tuple(own.image.tolist()),
            own_peak=tuple(own.peak.tolist()),
            outside=outside_value(own.cell),
            seconds=round(time.monotonic() - started, 3),
            versions=versions(),
            tested=numbers,
            self_test=tested,
            checks=_look_at(features, own, folds, names),
        )
        _appear(folder, temporary, record)


def _try_out(detector: Detector, few: Features) -> None:
    """Whether what another's detector learns can be saved, and what it scores, is seen before the work on all images."""
    fitted = copy.copy(detector).fit(few)
    check_savable(fitted)
    check_scores(fitted.score(few), len(few), type(detector).__name__)


def _steps(progress: Progress | None) -> Callable[[_Result], _Result]:
    """What is handed through it counts as one step of fitting."""
    done = iter(range(1, STEPS_OF_FITTING + 1))
    if progress is not None:
        progress(0, STEPS_OF_FITTING)

    def step(result: _Result) -> _Result:
        if progress is not None:
            progress(next(done), STEPS_OF_FITTING)
        return result

    return step


def _write_fitted(folder: Path, fitted: Detector, folds: Folds) -> dict[str, str]:
    """Write reference and folds; returns the SHA-256 of each file."""
    files = {REFERENCE_FILE: file_digest(save(fitted, folder / REFERENCE_FILE))}
    if folds.rows:
        files[FOLDS_FILE] = file_digest(_save_rows(folds, folder / FOLDS_FILE))
    return files


def _look_at(features: Features, own: PartScores, folds: Folds, names: Sequence[str]) -> tuple[Check, ...]:
    """The checks of the training parts themselves: nobody has verified them one by one."""
    scored = sorted(i for members in folds.left_out for i in members)
    return check_unlike(own.cell, own.image, [names[i] for i in scored]), check_twins(features, names)


def _appear(folder: StationFolder, temporary: Path, record: StationRecord) -> None:
    """Let a fitted reference and its record appear together."""
    target = folder.references / record.reference
    with folder.locked():
        if not target.exists():
            folder.move_in(temporary, target)
        write_record(folder.record, "station", record.to_json())
        details = {"images": len(record.images), "operator": record.operator, "reference": record.reference}
        folder.log("fit", details)


def _kept_earlier(folder: StationFolder) -> dict[str, ImageSource]:
    """The parts that a station which grows has kept so far, by SHA-256."""
    if not folder.record.is_file():
        return {}
    record = StationRecord.from_json(folder.read_station())
    paths = kept_images(folder.references / record.reference, record.files)
    return {record.images[number][1]: path for number, path in zip(record.tested, paths, strict=True)}


def _first_test(
    folder: Path,
    encoder: Encoder,
    inputs: CalibrationInputs,
    sources: Mapping[str, ImageSource],
    files: dict[str, str],
) -> tuple[tuple[int, ...], SelfTest | None]:
    """Keep some of the parts in the folder and test the station on them; notes the files in `files`.

    Args:
        sources: where the images are that are at hand; none of those scored out of fold means no test.
    """
    from sparcal.station.self_test_page import write_self_test_page

    scored = sorted(i for members in inputs.folds.left_out for i in members)
    at_hand = [i for i in scored if inputs.hashes[i] in sources]
    if not at_hand:
        return (), None
    numbers = tuple(at_hand[i] for i in spaced(len(at_hand), KEPT_PARTS))
    files |= keep_images(folder, [sources[inputs.hashes[i]] for i in numbers])
    limits = [find_threshold(scores.numpy(), [], FALSE_REJECT).value for scores in inputs.own]
    parts = plant_on_own(encoder, inputs.reference, kept_images(folder, files), workers=inputs.workers)
    held = own_parts(inputs.detector, inputs.reference, inputs.folds, numbers, parts)
    tested = self_test(parts, held, thresholds=(limits[0], limits[1]), floor=FALSE_REJECT, seed=0)
    page = write_self_test_page(folder / SELF_TEST_FILE, "The station's own reference", tested, parts.crops)
    files[page.name] = file_digest(page)
    return numbers, tested


def plant_on_own(
    encoder: Encoder, reference: Features, images: Sequence[Path], *, n: int = PLANTED, seed: int = 0, workers: int = 1
) -> PlantedParts:
    """Defects on parts that the station was fitted on."""
    return plant_on(encoder, images, outline=find_outline(reference).cells, n=n, seed=seed, workers=workers)


def load_folds(folder: Path, files: Mapping[str, str], n: int) -> Folds:
    """The folds that were written with a station of n images, or those of a detector that needs no rows.

    Args:
        folder: of the fitted reference.
        files: SHA-256 of each file in it, as the station's record has them.
    """
    parts = plain_folds(n)
    if FOLDS_FILE not in files:
        return Folds(parts, ())
    path = verified(folder / FOLDS_FILE, files[FOLDS_FILE], remedy=FIT_AGAIN)
    with understood(f"{path}"):
        stored = load_file(path)
        return Folds(parts, tuple(stored[f"rows{number}"] for number in range(len(parts))))


def _save_rows(folds: Folds, path: Path) -> Path:
    save_file({f"rows{number}": rows.cpu().contiguous() for number, rows in enumerate(folds.rows)}, path)
    return path


def load_features(store: FeatureStore, keys: Sequence[str], device: torch.device) -> Features:
    """All training features as float32 on a device, or a DataError where there is not enough memory to work with them."""
    require_working_memory(store.grids or (), len(keys))
    return store.load(keys).to(device)
