"""The making of a station: what is asked for, looked at before any work, and then images, features, reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from torch import Tensor

from sparcal.artifacts import check_savable
from sparcal.detectors import for_cell_pixels
from sparcal.devices import AUTO_DEVICE, find_device
from sparcal.encoders.known_models import require_known_model
from sparcal.encoders.runtime_choice import RuntimeChoice, choose_runtime, compiled_by
from sparcal.encoders.spec import parse_spec, with_runtime
from sparcal.errors import DataError
from sparcal.hosts import find_host
from sparcal.imaging.decode import ImageSource
from sparcal.imaging.encode import encode_each
from sparcal.imaging.maps import MapRule
from sparcal.imaging.read import Failure, name_of, read_image
from sparcal.progress import Progress, shown_progress
from sparcal.runtimes import AUTO_RUNTIME, TORCH, check_runtime, runtime_of
from sparcal.settings import check_workers, file_path, function, in_short, instance_of, one_of, switch, text
from sparcal.station.features import FeatureStore
from sparcal.station.fit import fit_reference
from sparcal.station.folder import StationFolder
from sparcal.station.given_features import with_features
from sparcal.station.host_parts import host_parts, refuse_both
from sparcal.station.intake import take_in
from sparcal.types import Detector, Encoder, Family, Features, require_features

if TYPE_CHECKING:
    from sparcal.station.station import Station

STAGES_OF_FITTING = ("Encoding good parts", "Fitting and testing")
MEASURED = 3  # images on which runtimes are compared


@dataclass(frozen=True)
class FitRequest:
    """What was asked for: everything about a new station but its images; see `Station.fit`."""

    path: str | Path
    host: str = "patchcore"
    encoder: str | Encoder | None = None
    weights: str | Path | None = None
    detector: Detector | None = None
    features: Features | None = None
    operator: str | None = None
    workers: int = 1
    insist: bool = False
    device: str = AUTO_DEVICE
    runtime: str | None = None

    def __post_init__(self) -> None:
        file_path(self.path, "A station's path")
        find_host(self.host)
        check_encoder(self.encoder)
        file_path(self.weights, "weights", optional=True)
        refuse_both(self.encoder, self.weights)
        if self.detector is not None:
            _check_detector(self.detector)
        if self.features is not None:
            require_features(self.features, "features=")
        text(self.operator, "The operator", optional=True)
        check_workers(self.workers)
        switch(self.insist, "insist")
        find_device(self.device)
        text(self.runtime, "runtime", optional=True)
        if self.runtime is not None:
            check_runtime(self.runtime)


def make_station(request: FitRequest, sources: Sequence[ImageSource], progress: Progress | None) -> Encoder:
    """Encode good parts, fit the host on them, write a station; returns its encoder."""
    folder = StationFolder(Path(request.path))
    folder.require_free()  # an encoder that cannot be had leaves no folder behind
    choice, configured = _encoder_and_detector(request, folder, sources)
    encoder = choice.encoder
    detector = configured if request.detector is None else for_cell_pixels(request.detector, encoder.cell_pixels)
    folder.prepare()
    about = {
        "host": request.host,
        "encoder": _encoder_text(request, encoder),
        "weights": _weights_text(request.weights),
        "encoder_id": encoder.id,
        "operator": request.operator,
        "earlier": (),
        "runtime_sentence": choice.sentence or None,
    }
    with folder.fitting(), shown_progress(progress, *STAGES_OF_FITTING) as told:
        store = FeatureStore(folder.features, encoder.id)
        if request.features is None:
            store.refresh()
            encoded = encode_each(encoder, sources, known=store, workers=request.workers)
        else:
            encoded = with_features(encoder, sources, request.features, workers=request.workers)
        intake = take_in(store, encoded, sources, detector=detector, progress=told)
        intake.require_enough(len(sources), insist=request.insist)
        fit_reference(folder, store, (encoder, detector), intake, about, workers=request.workers, progress=told)
    return encoder


def grow_station(
    station: Station,
    sources: Sequence[ImageSource],
    *,
    operator: str | None,
    insist: bool,
    progress: Progress | None,
) -> None:
    """Add good parts and fit the station's own reference anew; nothing known is encoded again, lots stay as they are."""
    record, folder, encoder = station.record, station.folder, station.encoder
    text(operator, "The operator", optional=True)
    switch(insist, "insist")
    about = {name: getattr(record, name) for name in ("host", "encoder", "weights", "encoder_id", "runtime_sentence")}
    about["earlier"] = None if record.earlier is None else (*record.earlier, station.digest)
    about["operator"] = operator
    with folder.fitting(), shown_progress(progress, *STAGES_OF_FITTING) as told:
        folder.require_unchanged(station.digest)
        store = station.store()
        store.require([digest for _, digest in record.images])
        encoded = encode_each(encoder, sources, known=store, workers=station.workers)
        intake = take_in(store, encoded, sources, detector=station.detector, before=record.images, progress=told)
        intake.require_enough(len(sources), insist=insist)
        if len(intake.images) > len(record.images):
            parts = encoder, station.detector
            fit_reference(folder, store, parts, intake, about, workers=station.workers, progress=told)


def check_encoder(encoder: object) -> None:
    """Raise DataError unless `encoder` is an encoder, or a name that somebody knows."""
    if encoder is not None and not isinstance(encoder, str | Encoder):
        raise DataError(
            f"An encoder must be a name, or an object with id, preprocess, cell_pixels and a call, got "
            f"{in_short(encoder)}: see sparcal.types.Encoder."
        )
    if isinstance(encoder, Encoder):
        _check_parts(encoder)
    elif encoder is not None:
        require_known_model(parse_spec(encoder))


def _check_parts(encoder: Encoder) -> None:
    """Raise DataError unless an encoder object has an id in one line, and something to prepare images with."""
    hint = "it names everything that decides the features"
    text(encoder.id, "The encoder's id", hint=hint)
    if not encoder.id.strip() or not encoder.id.isprintable():
        raise DataError(f"The encoder's id must be one line of letters, got {in_short(encoder.id)}: {hint}.")
    function(encoder.preprocess, "The encoder's preprocess")


def _check_detector(detector: object) -> None:
    if isinstance(detector, type) or not isinstance(detector, Detector):
        raise DataError(
            f"A detector must be an object with family, map_rule, fit and score, got {in_short(detector)}: "
            "make one, for instance sparcal.detectors.PaDiM()."
        )
    one_of(detector.family, "A detector's family", get_args(Family))
    instance_of(detector.map_rule, "A detector's map_rule", MapRule, hint="MapRule(cell_pixels=8) is one")
    if detector.family == "mutual":
        raise DataError("A detector that scores a lot against itself has no reference to keep: use score_lot.")
    check_savable(detector)


def _encoder_and_detector(
    request: FitRequest, folder: StationFolder, sources: Sequence[ImageSource]
) -> tuple[RuntimeChoice, Detector]:
    """The encoder, with the runtime settled and why if it was chosen here, and the host's detector for it."""
    chooses = request.runtime == AUTO_RUNTIME and not isinstance(request.encoder, Encoder)
    runtime = TORCH if chooses else request.runtime
    encoder, detector = host_parts(request.host, request.encoder, request.weights, request.device, runtime)
    if not chooses:
        return RuntimeChoice(encoder, ""), detector
    begun = FeatureStore.encoder_in(folder.features)
    if begun is not None:
        chosen = runtime_of(begun)
        sentence = f"The encoder is computed by {chosen}, as the fit that was cut short began."
        return RuntimeChoice(compiled_by(encoder, chosen), sentence), detector
    images = _first_images(encoder, sources)
    return choose_runtime(encoder, images) if images else RuntimeChoice(encoder, ""), detector


def _first_images(encoder: Encoder, sources: Sequence[ImageSource]) -> list[Tensor]:
    """The pixels of a few images of one input size, to measure on."""
    read = (read_image(source, name_of(source, number), encoder.preprocess) for number, source in enumerate(sources))
    usable = (image.pixels for image in read if not isinstance(image, Failure))
    first = list(islice(usable, MEASURED))
    return [image for image in first if image.shape == first[0].shape]


def _encoder_text(request: FitRequest, found: Encoder) -> str | None:
    """How an encoder is named in the record: as it was, with the runtime where that differs from what the name says."""
    if isinstance(request.encoder, Encoder):
        return ""
    spec = parse_spec(request.encoder or find_host(request.host).encoder)
    runtime = runtime_of(found.id)
    return request.encoder if (spec.runtime or TORCH) == runtime else str(with_runtime(spec, runtime))


def _weights_text(weights: str | Path | None) -> str | None:
    """Where the weights were, so that the station finds them again."""
    if weights is None or str(weights).startswith("random:"):
        return None if weights is None else str(weights)
    return str(Path(weights).resolve())
