"""What a station is made of: the host's encoder, loaded or as given, and its detector for that encoder."""

from __future__ import annotations

from pathlib import Path

from sparcal.detectors import DETECTORS, for_cell_pixels
from sparcal.errors import DataError
from sparcal.hosts import find_host, load_host
from sparcal.types import Detector, Encoder


def host_parts(host: str, encoder: str | Encoder | None, weights: str | Path | None) -> tuple[Encoder, Detector]:
    """The encoder, loaded or as given, and the host's detector for it."""
    chosen = find_host(host)
    if chosen.family == "mutual":
        raise DataError(f"The host {host} scores a lot against itself and has no reference to keep: use score_lot.")
    if encoder is None or isinstance(encoder, str):
        return load_host(host, encoder=encoder, weights=weights)
    return encoder, for_cell_pixels(DETECTORS[chosen.detector](**chosen.settings), encoder.cell_pixels)
