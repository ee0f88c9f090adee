"""Batch-norm adaptation: an encoder whose normalisation statistics come from the lot (Schneider et al., NeurIPS 2020).

Every batch-norm layer gets mean and variance

    p * source + (1 - p) * calibration,    p = N / (N + k),

with k calibration images and a pseudo-count of N source images: N = 0 is the paper's calibration-only control, N = 16
its source-mixed one. The k images go through the network once, together, and each layer's mixture already normalises
what the next layer sees, as in the authors' code. Features made before the adaptation are of no use after it: encode
the training and the test images again.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from sparcal.encoders.timm import TimmEncoder
from sparcal.errors import DataError, ShapeError


def adapt_batchnorm(encoder: TimmEncoder, pixels: Tensor, *, source_weight: int = 0) -> TimmEncoder:
    """A copy of `encoder` with batch-norm statistics mixed from its own and those of `pixels`; `encoder` is left as it was.

    All k images are in memory at once, as the statistics of a layer need all of them.

    Args:
        pixels: (k, 3, H, W), preprocessed by `encoder.preprocess`, on any device.
        source_weight: N, how many images the source statistics count for; 0 forgets them.
    """
    _check(encoder, pixels, source_weight)
    model = copy.deepcopy(encoder.model)
    share = source_weight / (source_weight + len(pixels))
    hooks = [layer.register_forward_pre_hook(_mixing(layer, share)) for layer in _batchnorms(model)]
    note = f"&batchnorm=n{source_weight}-k{len(pixels)}-sha256-{_digest(pixels)}"
    adapted = replace(encoder, id=encoder.id + note, model=model)
    try:
        with torch.no_grad():
            adapted(pixels)
    finally:
        for hook in hooks:
            hook.remove()
    return adapted


def mixed_statistics(x: Tensor, mean: Tensor, variance: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """share * source + (1 - share) * batch, per channel, for the mean and for the unbiased variance of the batch.

    Args:
        x: (k, c, h, w), what enters the layer.
        mean: (c,), of the source.
        variance: (c,), of the source.
        share: p, the weight of the source.
    """
    axes = (0, 2, 3)
    return (
        torch.lerp(x.mean(dim=axes), mean, share),
        torch.lerp(x.var(dim=axes, correction=1), variance, share),
    )


def _batchnorms(model: nn.Module) -> list[nn.BatchNorm2d]:
    """The layers with statistics of their own; timm's BatchNormAct2d is one of them."""
    return [x for x in model.modules() if isinstance(x, nn.BatchNorm2d) and x.running_mean is not None]


def _mixing(layer: nn.BatchNorm2d, share: float) -> Callable[[nn.Module, tuple[Any, ...]], None]:
    """A hook that sets the layer's statistics from what is about to enter it."""
    running_mean, running_var = layer.running_mean, layer.running_var
    assert running_mean is not None
    assert running_var is not None
    source = running_mean.clone(), running_var.clone()

    def mix(_: nn.Module, inputs: tuple[Any, ...]) -> None:
        x: Tensor = inputs[0]
        if x.numel() // x.shape[1] < 2:
            raise DataError(
                "adapt_batchnorm needs at least 2 values per channel in every layer, got 1 from one image on a grid of "
                "one cell: give more or larger images."
            )
        mean, variance = mixed_statistics(x, *source, share)
        running_mean.copy_(mean)
        running_var.copy_(variance)

    return mix


def _check(encoder: TimmEncoder, pixels: Tensor, source_weight: int) -> None:
    if not isinstance(encoder, TimmEncoder):
        raise DataError(
            f"adapt_batchnorm needs a timm encoder that torch computes, got {encoder.id}: load it without runtime=."
        )
    if not _batchnorms(encoder.model):
        raise DataError(
            f"adapt_batchnorm needs an encoder with batch-norm layers, got {type(encoder.model).__name__} without any: "
            "use a ResNet or EfficientNet, or another correction."
        )
    if pixels.ndim != 4 or len(pixels) == 0:
        raise ShapeError(
            f"adapt_batchnorm needs pixels (k, 3, H, W) of at least one image, got {tuple(pixels.shape)}: "
            "stack the preprocessed calibration images."
        )
    if not torch.isfinite(pixels).all():
        raise DataError("adapt_batchnorm needs finite pixels, got NaN or infinity: check the calibration images.")
    if source_weight < 0:
        raise DataError(
            f"adapt_batchnorm's source_weight must be 0 or more images, got {source_weight}: "
            "0 is calibration-only, 16 the paper's mixture."
        )


def _digest(pixels: Tensor) -> str:
    seen = hashlib.sha256(f"{tuple(pixels.shape)} {pixels.dtype}".encode())
    seen.update(pixels.detach().cpu().contiguous().numpy().tobytes())
    return seen.hexdigest()[:16]
