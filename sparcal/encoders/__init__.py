"""Encoders: images to Features, by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from sparcal.devices import AUTO_DEVICE, encoder_device
from sparcal.encoders.placement import device_for, place
from sparcal.encoders.spec import ComputePrecision, EncoderSpec, Recipe, check_weights, parse_spec, with_precision
from sparcal.errors import DataError, SparcalError
from sparcal.memory import hold_freed_memory
from sparcal.plugins import ENCODER_GROUP, load_plugin
from sparcal.runtimes import AUTO_RUNTIME, TORCH, check_runtime
from sparcal.settings import file_path, instance_of, text
from sparcal.types import Encoder

__all__ = ["EncoderSpec", "Recipe", "load_encoder", "parse_spec"]


def load_encoder(
    name: str | EncoderSpec,
    *,
    weights: str | Path | None = None,
    recipe: Recipe | None = None,
    device: str | torch.device = AUTO_DEVICE,
    precision: ComputePrecision | None = None,
    runtime: str | None = None,
) -> Encoder:
    """The encoder that `name` describes; from then on the process holds memory that it frees, see `hold_freed_memory`.

    Args:
        name: "bundled", "timm:MODEL.TAG", "openclip:MODEL/TAG" or a plug-in's "SOURCE:MODEL", with settings after a
            question mark, for instance "timm:wide_resnet50_2.tv_in1k?layers=8,16&aggregate=pool&size=256".
        weights: a local weight file, for machines without a hub.
        recipe: fills in what `name` does not say, before the network's own defaults do.
        device: auto, cpu, cuda, cuda:1 or mps; see `sparcal.devices`.
        precision: float32, bfloat16 or float16, what the network computes in; None leaves it to `name`.
        runtime: torch, or on a processor openvino or onnx, which compile the network; auto measures on noise and takes
            the fastest; None leaves it to `name`, which means torch where it says nothing.

    >>> encoder = load_encoder("bundled?size=128")
    >>> encoder.cell_pixels, encoder.id[:16]
    (8, 'bundled?layers=8')
    """
    hold_freed_memory()
    if not isinstance(name, EncoderSpec):
        text(name, "An encoder's name", hint="write 'bundled', 'timm:MODEL.TAG' or 'openclip:MODEL/TAG'")
    file_path(weights, "weights", optional=True)
    instance_of(recipe, "recipe", Recipe, optional=True)
    spec = with_precision(parse_spec(name) if isinstance(name, str) else name, precision)
    computed_by = (spec.runtime or TORCH) if runtime is None else runtime
    check_runtime(computed_by)
    place_at = device_for(computed_by, device, spec.precision)
    encoder = _load(replace(spec, runtime=None), weights, recipe)
    network = getattr(encoder, "model", None)
    if isinstance(network, torch.nn.Module):
        place(network, place_at, spec.precision)
    elif (device != AUTO_DEVICE and place_at != encoder_device(encoder)) or spec.precision is not None:
        raise DataError(
            f"The encoder {encoder.id} must have its network in `model` to go to a device or precision, got none there: "
            "leave device and precision out."
        )
    return encoder if computed_by == TORCH else _compiled(encoder, computed_by)


def _compiled(encoder: Encoder, runtime: str) -> Encoder:
    from sparcal.encoders.runtime_choice import choose_runtime, compiled_by

    if runtime == AUTO_RUNTIME:
        return choose_runtime(encoder, _noise(encoder)).encoder
    return compiled_by(encoder, runtime)


def _noise(encoder: Encoder) -> list[Tensor]:
    """An image for an encoder that has not seen any."""
    side, step = encoder.preprocess.crop or encoder.preprocess.size, encoder.preprocess.multiple
    size = encoder.preprocess.output_size or (side // step * step,) * 2
    return [torch.randn(3, *size, generator=torch.Generator().manual_seed(0))]


def _load(spec: EncoderSpec, weights: str | Path | None, recipe: Recipe | None) -> Encoder:
    check_weights(spec, weights)
    if spec.source == "bundled":
        from sparcal.encoders.bundled import load_bundled

        return load_bundled(spec, recipe=recipe)
    if spec.source == "timm":
        from sparcal.encoders.timm import load_timm

        return load_timm(spec, weights=weights, recipe=recipe)
    if spec.source == "openclip":
        from sparcal.encoders.openclip import load_openclip

        return load_openclip(spec, weights=weights, recipe=recipe)
    return _load_foreign(spec, weights, recipe)


def _load_foreign(spec: EncoderSpec, weights: str | Path | None, recipe: Recipe | None) -> Encoder:
    loader = load_plugin(ENCODER_GROUP, spec.source)
    if not callable(loader):
        raise DataError(f"The plug-in {spec.source!r} must be a function that loads encoders, got {loader!r}.")
    try:
        encoder = loader(spec, weights=weights, recipe=recipe)
    except SparcalError:
        raise
    except Exception as error:  # a foreign package may do anything wrong
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise DataError(
            f"The plug-in {spec.source!r} was expected to load {spec}, got {reason}: ask who wrote it."
        ) from error
    if not isinstance(encoder, Encoder):
        raise DataError(f"The plug-in {spec.source!r} must give an encoder, got a {type(encoder).__name__}.")
    return encoder
