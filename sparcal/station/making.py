"""The making of a station: what is asked for, looked at before any work, and then images, features, reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sparcal.artifacts import check_savable
from sparcal.calibration.calibrate import Progress
from sparcal.detectors import for_cell_pixels
from sparcal.devices import AUTO_DEVICE, find_device
from sparcal.errors import ArtifactError, DataError
from sparcal.hosts import find_host
from sparcal.imaging.decode import ImageSource
from sparcal.imaging.encode import encode_each
from sparcal.settings import in_short, instance_of, switch, text, whole_number
from sparcal.station.features import FeatureStore
from sparcal.station.fit import fit_reference
from sparcal.station.folder import StationFolder
from sparcal.station.given_features import with_features
from sparcal.station.host_parts import host_parts
from sparcal.station.intake import take_in
from sparcal.types import Detector, Encoder, Features, require_features

if TYPE_CHECKING:
    from sparcal.station.station import Station


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

    def __post_init__(self) -> None:
        instance_of(self.path, "A station's path", (str, Path))
        find_host(self.host)
        check_encoder(self.encoder)
        instance_of(self.weights, "weights", (str, Path), optional=True)
        if self.detector is not None:
            _check_detector(self.detector)
        if self.features is not None:
            require_features(self.features, "features=")
        text(self.operator, "The operator", optional=True)
        whole_number(self.workers, "workers", least=1)
        switch(self.insist, "insist")
        find_device(self.device)


def make_station(request: FitRequest, sources: Sequence[ImageSource], progress: Progress | None) -> Encoder:
    """Encode good parts, fit the host on them, write a station; returns its encoder."""
    folder = StationFolder(Path(request.path))
    folder.prepare()
    encoder, configured = host_parts(request.host, request.encoder, request.weights, request.device)
    detector = configured if request.detector is None else for_cell_pixels(request.detector, encoder.cell_pixels)
    about = {
        "host": request.host,
        "encoder": _encoder_text(request.encoder),
        "weights": _weights_text(request.weights),
        "encoder_id": encoder.id,
        "operator": request.operator,
        "earlier": (),
    }
    with folder.fitting():
        store = FeatureStore(folder.features, encoder.id)
        if request.features is None:
            store.refresh()
            encoded = encode_each(encoder, sources, known=store, workers=request.workers)
        else:
            encoded = with_features(encoder, sources, request.features, workers=request.workers)
        intake = take_in(store, encoded, sources, progress=progress)
        intake.require_enough(len(sources), insist=request.insist)
        fit_reference(folder, store, (encoder, detector), intake, about, workers=request.workers, progress=progress)
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
    about = {name: getattr(record, name) for name in ("host", "encoder", "weights", "encoder_id")}
    about["earlier"] = None if record.earlier is None else (*record.earlier, station.digest)
    about["operator"] = operator
    with folder.fitting():
        if folder.read_station()["digest"] != station.digest:
            raise ArtifactError(f"The station {station.path} has changed since it was opened: open it again.")
        store = station.store()
        encoded = encode_each(encoder, sources, known=store, workers=station.workers)
        intake = take_in(store, encoded, sources, before=record.images, progress=progress)
        intake.require_enough(len(sources), insist=insist)
        if len(intake.images) > len(record.images):
            fit_reference(
                folder, store, (encoder, station.detector), intake, about, workers=station.workers, progress=progress
            )


def check_encoder(encoder: object) -> None:
    """Raise DataError unless `encoder` is a name or an encoder."""
    if encoder is not None and not isinstance(encoder, str | Encoder):
        raise DataError(
            f"An encoder must be a name, or an object with id, preprocess, cell_pixels and a call, got "
            f"{in_short(encoder)}: see sparcal.types.Encoder."
        )
    if isinstance(encoder, Encoder):
        text(encoder.id, "The encoder's id", hint="it names everything that decides the features")


def _check_detector(detector: object) -> None:
    if isinstance(detector, type) or not isinstance(detector, Detector):
        raise DataError(
            f"A detector must be an object with family, map_rule, fit and score, got {in_short(detector)}: "
            "make one, for instance sparcal.detectors.PaDiM()."
        )
    if detector.family == "mutual":
        raise DataError("A detector that scores a lot against itself has no reference to keep: use score_lot.")
    check_savable(detector)


def _encoder_text(encoder: str | Encoder | None) -> str | None:
    """How an encoder is named in the record."""
    return encoder if encoder is None or isinstance(encoder, str) else ""


def _weights_text(weights: str | Path | None) -> str | None:
    """Where the weights were, so that the station finds them again."""
    if weights is None or str(weights).startswith("random:"):
        return None if weights is None else str(weights)
    return str(Path(weights).resolve())
