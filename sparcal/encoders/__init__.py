"""Encoders: images to Features, by name."""

from __future__ import annotations

from pathlib import Path

from sparcal.encoders.spec import EncoderSpec, Recipe, parse_spec
from sparcal.errors import DataError
from sparcal.types import Encoder

__all__ = ["EncoderSpec", "Recipe", "load_encoder", "parse_spec"]


def load_encoder(
    name: str | EncoderSpec, *, weights: str | Path | None = None, recipe: Recipe | None = None
) -> Encoder:
    """The encoder that `name` describes.

    Args:
        name: "bundled", "timm:MODEL.TAG" or "openclip:MODEL/TAG", with settings after a question mark, for instance
            "timm:wide_resnet50_2.tv_in1k?layers=8,16&aggregate=pool&size=256".
        weights: a local weight file, for machines without a hub.
        recipe: fills in what `name` does not say, before the network's own defaults do.

    >>> encoder = load_encoder("bundled?size=128")
    >>> encoder.cell_pixels, encoder.id[:16]
    (8, 'bundled?layers=8')
    """
    spec = parse_spec(name) if isinstance(name, str) else name
    if spec.source == "bundled":
        from sparcal.encoders.bundled import load_bundled

        if weights is not None:
            raise DataError(f"The bundled encoder brings its own weights, got weights={str(weights)!r}: leave it out.")
        return load_bundled(spec, recipe=recipe)
    if spec.source == "timm":
        from sparcal.encoders.timm import load_timm

        return load_timm(spec, weights=weights, recipe=recipe)
    from sparcal.encoders.openclip import load_openclip

    return load_openclip(spec, weights=weights, recipe=recipe)
