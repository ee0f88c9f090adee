"""What a detector may demand of the features it is given: images, levels, channels."""

from __future__ import annotations

import torch
from torch import Tensor

from sparcal.errors import ShapeError
from sparcal.types import Features, require_features


def at_least_float32(level: Tensor) -> Tensor:
    """`level`, with half precision widened: features may be stored in 16 bits, but scores are not computed in them."""
    return level.to(torch.promote_types(level.dtype, torch.float32))


def require_images(who: str, features: Features) -> Features:
    """`features`, or a ShapeError if they hold no image."""
    if len(require_features(features, f"{who}'s features")) == 0:
        raise ShapeError(f"{who} scores one or more images, got 0: encode at least one image.")
    return features


def allow_reference(thing: object, reference: Features | None) -> None:
    """Raise ShapeError where a detector that needs no reference is given something that is none."""
    if reference is not None:
        require_features(reference, f"{type(thing).__name__}'s reference")


def only_level(who: str, features: Features) -> Tensor:
    """The one (n, h, w, d) grid of `features`, in float32 or float64, or a ShapeError if there are several."""
    if len(features.levels) != 1:
        raise ShapeError(
            f"{who} works on one grid of features, got {len(features.levels)} levels: "
            "use an encoder that joins its layers into one."
        )
    return at_least_float32(features.levels[0])


def require_channels(who: str, level: Tensor, channels: int) -> Tensor:
    """`level`, or a ShapeError if its vectors are not as long as those of the reference."""
    if level.shape[-1] != channels:
        raise ShapeError(
            f"{who} was fitted on features of {channels} channels, got {level.shape[-1]}: "
            "encode with the encoder it was fitted with."
        )
    return level


def scored_level(who: str, features: Features, channels: int) -> Tensor:
    """The one grid of one or more images, with as many channels as the reference."""
    return require_channels(who, only_level(who, require_images(who, features)), channels)
