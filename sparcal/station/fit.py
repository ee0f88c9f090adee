"""From a folder of good parts to a station: encode what is new, fit the reference, score the parts out of fold."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors.torch import load_file, save_file

from sparcal.artifacts import save
from sparcal.calibration.calibrate import Progress
from sparcal.calibration.defaults import FALSE_REJECT, PLANTED
from sparcal.calibration.held_out import Folds, make_folds, own_parts, own_scores, plain_folds, spaced
from sparcal.calibration.inputs import CalibrationInputs
from sparcal.calibration.outline import find_outline
from sparcal.calibration.planted_parts import PlantedParts, plant_on
from sparcal.calibration.self_test import SelfTest, self_test
from sparcal.calibration.thresholds import find_threshold
from sparcal.corrections import Identity
from sparcal.devices import encoder_device, float64_device
from sparcal.errors import DataError
from sparcal.files.hashing import file_digest
from sparcal.files.json_record import now, write_record
from sparcal.files.versions import versions
from sparcal.imaging.decode import ImageSource
from sparcal.imaging.encode import EncodedImage, Grids, KnownImage, encode_each, stranger
from sparcal.imaging.maps import outside_value
from sparcal.imaging.read import Failure
from sparcal.memory import require_memory
from sparcal.score import CalibratedDetector
from sparcal.station.features import SHARD, FeatureStore
from sparcal.station.folder import StationFolder
from sparcal.station.kept_images import keep_images, kept_images
from sparcal.station.lot_record import REFERENCE_FILE, SELF_TEST_FILE
from sparcal.station.record import StationRecord
from sparcal.types import Detector, Encoder, Features

_Result = TypeVar("_Result")

FEWEST_IMAGES = 2
FOLDS_FILE = "folds.safetensors"
KEPT_PARTS = 16  # of the station's, so that it can be tested again
STEPS_OF_FITTING = 4  # the reference, its folds, the scores of its own parts, the self-test
WORKING_COPIES = 3  # of the features in float32: as loaded, corrected, and a fold


@dataclass(frozen=True)
class Intake:
    """Training images that are in the store, and those that were not taken.

    Args:
        images: name and SHA-256 of each.
        left_out: name of each, and one sentence why.
        sources: where the images of this call are, by SHA-256.
    """

    images: tuple[tuple[str, str], ...]
    left_out: tuple[tuple[str, str], ...]
    sources: Mapping[str, ImageSource]


def take_in(
    store: FeatureStore,
    encoder: Encoder,
    sources: Sequence[ImageSource],
    *,
    before: Sequence[tuple[str, str]] = (),
    workers: int = 1,
    progress: Progress | None = None,
) -> Intake:
    """Encode what the store does not hold; what it holds from work that was cut short is not encoded again.

    Args:
        before: name and hash of images that the station has already.
    """
    store.refresh()
    taken = {digest: name for name, digest in before}
    images, left_out = list(before), []
    grids: Grids | None = store.grids
    waiting: list[EncodedImage] = []
    at: dict[str, ImageSource] = {}
    for number, item in enumerate(encode_each(encoder, sources, known=store, workers=workers), start=1):
        name = str(item.path)
        reason = item.reason if isinstance(item, Failure) else None
        if isinstance(item, EncodedImage):
            grids = grids or item.features.grids
            reason = stranger(item, grids, ())
        if isinstance(item, EncodedImage | KnownImage) and item.sha256 in taken:
            reason = f"{name} has the same content as {taken[item.sha256]}: one of them is enough."
        if reason is not None:
            left_out.append((name, reason))
        elif not isinstance(item, Failure):
            taken[item.sha256] = name
            images.append((name, item.sha256))
            at[item.sha256] = sources[number - 1]
        if isinstance(item, EncodedImage) and reason is None:
            waiting.append(item)
        if len(waiting) == SHARD:
            store.add(waiting)
            waiting = []
        if progress is not None:
            progress(number, len(sources))
    if waiting:
        store.add(waiting)
    return Intake(tuple(images), tuple(left_out), at)


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
    _require_enough(intake)
    encoder, detector = host
    keys = [digest for _, digest in intake.images]
    features = load_features(store, keys, float64_device(encoder_device(encoder)))
    geometries = [store.note(key).geometry for key in keys]
    fitted = step(copy.copy(detector).fit(features))
    folds = step(make_folds(detector, features, workers=workers))
    own = step(own_scores(CalibratedDetector(Identity(), fitted), features, geometries, folds, workers=workers))
    inputs = CalibrationInputs(fitted, features, geometries, keys, (own.image, own.peak), folds, workers)
    with folder.workplace() as temporary:
        files = {REFERENCE_FILE: file_digest(save(fitted, temporary / REFERENCE_FILE))}
        if folds.rows:
            files[FOLDS_FILE] = file_digest(_save_rows(folds, temporary / FOLDS_FILE))
        sources = {**_kept_earlier(folder), **intake.sources}
        numbers, tested = step(_first_test(temporary, encoder, inputs, sources, files))
        record = StationRecord(
            **about,
            created=now(),
            grids=features.grids,
            images=intake.images,
            left_out=intake.left_out,
            kinds=tuple(sorted({(*store.note(key).geometry.native, store.note(key).grey) for key in keys})),
            reference=files[REFERENCE_FILE][:24],
            files=files,
            own=tuple(own.image.tolist()),
            own_peak=tuple(own.peak.tolist()),
            outside=outside_value(own.cell),
            seconds=round(time.monotonic() - started, 3),
            versions=versions(),
            tested=numbers,
            self_test=tested,
        )
        _appear(folder, temporary, record)


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


def _require_enough(intake: Intake) -> None:
    if len(intake.images) < FEWEST_IMAGES:
        why = f", the first because: {intake.left_out[0][1]}" if intake.left_out else ""
        raise DataError(
            f"A station needs at least {FEWEST_IMAGES} usable images of good parts, got {len(intake.images)} and "
            f"{len(intake.left_out)} that were left out{why if why else ': show it more good parts.'}"
        )


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


def load_folds(path: Path, n: int) -> Folds:
    """The folds that were written with a station of n images, or those of a detector that needs no rows."""
    parts = plain_folds(n)
    if not path.exists():
        return Folds(parts, ())
    stored = load_file(path)
    return Folds(parts, tuple(stored[f"rows{number}"] for number in range(len(parts))))


def _save_rows(folds: Folds, path: Path) -> Path:
    save_file({f"rows{number}": rows.cpu().contiguous() for number, rows in enumerate(folds.rows)}, path)
    return path


def load_features(store: FeatureStore, keys: Sequence[str], device: torch.device) -> Features:
    """All training features as float32 on a device, or a DataError where there is not enough memory to work with them."""
    floats = sum(h * w * d for h, w, d in store.grids or ())
    require_memory(
        4 * WORKING_COPIES * floats * len(keys),
        f"A station of {len(keys)} images",
        "fit on fewer images, or on a machine with more memory",
    )
    return store.load(keys).to(device)


def encoder_text(encoder: str | Encoder | None) -> str | None:
    """How an encoder is named in the record."""
    return encoder if encoder is None or isinstance(encoder, str) else ""


def weights_text(weights: str | Path | None) -> str | None:
    """Where the weights were, so that the station finds them again."""
    if weights is None or str(weights).startswith("random:"):
        return None if weights is None else str(weights)
    return str(Path(weights).resolve())
