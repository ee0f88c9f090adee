"""Which runtime an encoder is computed by: the one that is asked for, or with `auto` the fastest here that agrees."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from sparcal.devices import encoder_device
from sparcal.encoders.compiled import FEATURE_TOLERANCE, CompiledEncoder, largest_gap
from sparcal.errors import DataError
from sparcal.runtimes import TORCH, CompiledRuntime, installed_runtimes
from sparcal.types import Encoder, Features

FASTER = 0.9  # of torch's time; less than that is no gain that one could tell from chance
PASSES = 3  # over the images, after one that is not timed


@dataclass(frozen=True, eq=False)
class RuntimeChoice:
    """The encoder as it will be computed, and one sentence why."""

    encoder: Encoder
    sentence: str


def compiled_by(encoder: Encoder, runtime: str) -> Encoder:
    """The encoder computed by a runtime that is installed; graphs are compiled when the first image comes."""
    if runtime == TORCH:
        return encoder
    reason = _not_to_compile(encoder)
    if reason is not None:
        raise DataError(
            f"A compiled encoder {reason[0]}, got {reason[1]} with the runtime {runtime}: use torch for it."
        )
    return CompiledEncoder(encoder, cast("CompiledRuntime", runtime))


def choose_runtime(encoder: Encoder, images: Sequence[Tensor]) -> RuntimeChoice:
    """The fastest of the runtimes that are installed and agree with torch, measured on images of one input size.

    Args:
        encoder: in torch.
        images: (3, H, W) each, preprocessed.
    """
    reason = _not_to_compile(encoder)
    if reason is not None:
        return _stay(encoder, f"a compiled one {reason[0]}, got {reason[1]}")
    if not installed_runtimes():
        return _stay(encoder, "neither OpenVINO nor onnxruntime is installed")
    own, found, refused = _milliseconds(encoder, images), [], []
    for runtime in installed_runtimes():
        candidate = CompiledEncoder(encoder, runtime)
        try:
            gap = max(largest_gap(candidate(x[None]), _features(encoder, x)) for x in images)
        except DataError as error:
            refused.append(str(error))
            continue
        if gap <= FEATURE_TOLERANCE:
            found.append(_Measured(candidate, _milliseconds(candidate, images), gap))
        else:
            refused.append(f"{runtime} is {gap:.2g} away from it.")
    if not found:
        return _stay(encoder, refused[0].rstrip("."))
    best, *others = sorted(found, key=lambda one: one.milliseconds)
    if best.milliseconds > FASTER * own:
        name = best.encoder.runtime
        return _stay(encoder, f"it takes {own:.3g} ms of processor time per image, {name} {best.milliseconds:.3g}")
    against = [f"{own:.3g} by torch", *(f"{one.milliseconds:.3g} by {one.encoder.runtime}" for one in others)]
    return RuntimeChoice(
        best.encoder,
        f"The encoder is computed by {best.encoder.runtime}: {best.milliseconds:.3g} ms of processor time per image "
        f"against {' and '.join(against)}, features within {best.gap:.1g} of torch's (relative to their root mean "
        f"square; {FEATURE_TOLERANCE:g} is allowed).",
    )


@dataclass(frozen=True, eq=False)
class _Measured:
    encoder: CompiledEncoder
    milliseconds: float
    gap: float


def _stay(encoder: Encoder, because: str) -> RuntimeChoice:
    return RuntimeChoice(encoder, f"The encoder is computed by torch: {because}.")


def _not_to_compile(encoder: Encoder) -> tuple[str, str] | None:
    """What a compiled encoder needs and this one has instead; None where it can be tried."""
    network = getattr(encoder, "model", None)
    if not isinstance(network, nn.Module):
        return "must have its network in `model`", f"none there in {encoder.id}"
    device, precision = encoder_device(encoder), next(network.parameters()).dtype
    if device.type != "cpu":
        return "computes on the processor", f"the device {device}"
    if precision != torch.float32:
        return "computes in float32", f"the precision {str(precision).removeprefix('torch.')}"
    return None


def _features(encoder: Encoder, image: Tensor) -> Features:
    with torch.inference_mode():
        return encoder(image[None])


def _milliseconds(encoder: Encoder, images: Sequence[Tensor]) -> float:
    """Processor time per image, the median over all that were timed: other programs do not count."""
    for image in images:
        _features(encoder, image)
    seconds = []
    for image in [*images] * PASSES:
        start = time.process_time()
        _features(encoder, image)
        seconds.append(time.process_time() - start)
    return 1000 * statistics.median(seconds)
