"""What features must be before anything is computed from them: on the right grid, of one type, finite."""

from __future__ import annotations

import torch
from torch import Tensor

from sparcal.errors import DataError, ShapeError
from sparcal.settings import with_article
from sparcal.types import Features, Scores, require_features


def check_finite(features: Features, who: str) -> None:
    """Raise DataError at the first image with a NaN or infinite feature."""
    for number, level in enumerate(features.levels):
        if torch.isfinite(level.sum()):  # a finite sum has finite terms; one that overflows is looked into
            continue
        bad = (~torch.isfinite(level)).flatten(1).any(dim=1).nonzero().flatten().tolist()
        if bad:
            raise DataError(
                f"{who} must be finite, got NaN or infinity in level {number} of image {bad[0]}"
                f"{f' and {len(bad) - 1} more' if len(bad) > 1 else ''}: check those images and the encoder."
            )


def check_encoded(features: object, images: int, encoder: str) -> Features:
    """What an encoder gave for this many images, or a ShapeError: other people's may give anything.

    Args:
        encoder: its id.
    """
    found = require_features(features, f"What the encoder {encoder} gives")
    empty = [number for number, level in enumerate(found.levels) if level.numel() == 0]
    if len(found) != images or empty:
        got = f"nothing in level {empty[0]}" if empty and len(found) == images else f"{len(found)} for {images}"
        raise ShapeError(
            f"The encoder {encoder} must give features of one or more channels for every image, in order, got {got}: "
            "check it with sparcal.testing.encoder_checks."
        )
    return found


def check_scores(scores: object, images: int, detector: str) -> None:
    """Raise ShapeError unless these are scores of this many images: other people's detectors may give anything.

    Args:
        detector: the name of its class.
    """
    if not isinstance(scores, Scores) or len(scores.image) != images:
        got = f"{len(scores.image)} for {images}" if isinstance(scores, Scores) else with_article(type(scores).__name__)
        raise ShapeError(
            f"The detector {detector} must give Scores with one row for every image, in order, got {got}: "
            "check it with sparcal.testing.detector_checks."
        )


def check_given(reference: Features | None, who: str) -> None:
    """Raise unless `reference`, which `fit` was given, holds features; None is fine."""
    if reference is not None:
        require_features(reference, f"{who}'s reference")


def check_reference(reference: Features, who: str) -> None:
    """Raise DataError unless there is at least one image, and every feature is finite."""
    if len(reference) == 0:
        raise DataError(f"{who} needs reference features of normal images, got 0 images: pass reference=.")
    check_finite(reference, f"{who}'s reference features")


def check_grid(features: Features, mean: tuple[Tensor, ...], who: str) -> None:
    """Raise ShapeError unless every level has the grid that was calibrated."""
    expected = tuple(tuple(m.shape) for m in mean)
    if require_features(features, f"{who}'s features").grids != expected:
        raise ShapeError(
            f"{who} expects the calibrated grids (h, w, d) {_grids(expected)}, got {_grids(features.grids)}: "
            "encode with the same encoder and image size."
        )
    kinds = {x.dtype for x in (*features.levels, *mean)}
    if len(kinds) > 1:
        raise ShapeError(
            f"{who} expects features of the type it was calibrated on, {mean[0].dtype}, got {features.levels[0].dtype}: "
            "convert one side."
        )


def only_grid(means: tuple[Tensor, ...], who: str) -> Tensor:
    """The mean of the one grid that was calibrated; a correction of several grids cannot be exported."""
    if len(means) != 1:
        raise ShapeError(
            f"{who} can be exported for one grid of features, got {len(means)} levels: "
            "use an encoder that joins its layers into one."
        )
    return means[0]


def _grids(grids: tuple[tuple[int, ...], ...]) -> str:
    return " + ".join("x".join(map(str, grid)) for grid in grids)
