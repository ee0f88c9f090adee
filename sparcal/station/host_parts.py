"""What a station is made of: the host's encoder, loaded or as given, and its detector for that encoder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sparcal.detectors import DETECTORS, for_cell_pixels
from sparcal.devices import AUTO_DEVICE, encoder_device, find_device
from sparcal.encoders.placement import device_for
from sparcal.encoders.spec import check_weights, parse_spec
from sparcal.errors import DataError, WeightsError
from sparcal.hosts import find_host, load_host
from sparcal.runtimes import AUTO_RUNTIME, runtime_of
from sparcal.settings import in_short, instance_of
from sparcal.station.record import StationRecord
from sparcal.station.recorded_runtime import check_recorded_runtime
from sparcal.types import Detector, Encoder

if TYPE_CHECKING:
    import torch


def host_parts(
    host: str, encoder: str | Encoder | None, weights: str | Path | None, device: str, runtime: str | None = None
) -> tuple[Encoder, Detector]:
    """The encoder, loaded or as given, and the host's detector for it."""
    chosen = find_host(host)
    if chosen.family == "mutual":
        raise DataError(f"The host {host} scores a lot against itself and has no reference to keep: use score_lot.")
    if encoder is None or isinstance(encoder, str):
        return load_host(host, encoder=encoder, weights=weights, device=device, runtime=runtime)
    station_device(encoder, device, encoder.id)
    if runtime not in (None, AUTO_RUNTIME, runtime_of(encoder.id)):
        raise DataError(
            f"The encoder that was given is computed by {runtime_of(encoder.id)}, got runtime={runtime!r}: "
            f"load it with load_encoder(..., runtime={runtime!r})."
        )
    return encoder, for_cell_pixels(DETECTORS[chosen.detector](**chosen.settings), encoder.cell_pixels)


def refuse_both(encoder: object, weights: str | Path | None) -> None:
    """An encoder object and a weight file do not go together: one of them would not be used."""
    if weights is not None and isinstance(encoder, Encoder):
        raise DataError(f"An encoder object has its weights, got weights={in_short(weights)}: leave it out.")


def recorded_encoder(station: Path, record: StationRecord, weights: str | Path | None, device: str) -> Encoder:
    """The encoder that a station was fitted with, loaded again.

    Args:
        weights: where its weight file is now, if not where it was.
    """
    if record.encoder == "":
        raise WeightsError(
            f"The station {station} was fitted with an encoder object, got none: pass it to Station.open(encoder=)."
        )
    check_recorded_runtime(station, record.encoder_id, AUTO_RUNTIME)
    encoder, _ = host_parts(record.host, record.encoder, weights or record.weights, device)
    check_fitted_with(station, record, encoder)
    return encoder


def check_fitted_with(station: Path, record: StationRecord, encoder: Encoder) -> None:
    """Refuse another encoder than the one that a station was fitted with."""
    if encoder.id != record.encoder_id:
        raise WeightsError(
            f"The station {station} was fitted with the encoder {record.encoder_id}, got {encoder.id}: "
            "give it the same encoder and weights."
        )


def check_parts(
    station: Path, record: StationRecord, encoder: Encoder | None, weights: str | Path | None, device: str
) -> None:
    """Refuse an encoder object that is not the station's, weights that it cannot use, a device that is not there or not its own."""
    refuse_both(encoder, weights)
    if encoder is None and record.encoder != "":
        check_weights(parse_spec(record.encoder or find_host(record.host).encoder), weights)
    instance_of(encoder, "A station's encoder", Encoder, optional=True, hint="load it with load_encoder")
    if encoder is not None:
        check_fitted_with(station, record, encoder)
    station_device(encoder, device, record.encoder_id)


def station_device(given: Encoder | None, device: str, encoder_id: str) -> torch.device:
    """The device that a name means; that of an encoder object, where one is given, and a DataError if the name differs."""
    if given is None:
        return device_for(runtime_of(encoder_id), device)
    asked = find_device(device)
    if device != AUTO_DEVICE and asked != encoder_device(given):
        raise DataError(
            f"The encoder that was given computes on {encoder_device(given)}, got device={device!r}: "
            f"load it with load_encoder(..., device={device!r})."
        )
    return encoder_device(given)
