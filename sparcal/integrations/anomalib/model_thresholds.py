"""A calibrated model's thresholds and normalisation, from good parts alone.

anomalib sets its threshold where the F1 score on validation images peaks. Without defective images there is no such
peak, and the threshold becomes the largest validation score. Here both thresholds are sparcal's: a good part is
rejected, or has any pixel marked, with at most the probability asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from anomalib.post_processing import PostProcessor
from torch import Tensor

from sparcal.calibration.thresholds import Threshold, find_threshold
from sparcal.types import Scores

BUFFERS = ("_image_threshold", "_pixel_threshold", "image_min", "image_max", "pixel_min", "pixel_max")
HOOKS = ("on_validation_batch_end", "on_validation_epoch_end")


@dataclass(frozen=True)
class ModelThresholds:
    """Thresholds on a model's raw scores.

    Args:
        image: on `pred_score`.
        pixel: on the largest value of `anomaly_map`: a good part above it has at least one pixel marked.
        image_floor: the score that normalisation shows as 0: that of a perfect match, or the lowest good score of a
            model with negative scores.
        pixel_floor: the same for pixels.
    """

    image: Threshold
    pixel: Threshold
    image_floor: float
    pixel_floor: float


def held_out_thresholds(scores: Scores, false_reject: float) -> ModelThresholds:
    """Thresholds from good parts of the lot that took no part in the calibration, by the calibrated model's scores."""
    peak = scores.cell.flatten(1).amax(dim=1)
    image, pixel = (find_threshold([], each.double().numpy(), false_reject) for each in (scores.image, peak))
    return ModelThresholds(image, pixel, floor_of(scores.image), floor_of(peak))


def floor_of(scores: Tensor) -> float:
    """0, or the lowest of the scores where some are negative."""
    return min(0.0, float(scores.min()))


def set_thresholds(model: Any, thresholds: ModelThresholds) -> None:
    """Put the thresholds into the model's post-processor, and keep later validation runs from replacing them.

    anomalib's normalised score is (score - threshold) / (max - min) + 0.5, cut to [0, 1]. With min at the floor and the
    threshold half way to max it runs evenly from 0 at the floor: for distances, whose floor is 0, it is
    score / (2 threshold).
    """
    processor = model.post_processor
    if not isinstance(processor, PostProcessor):  # none, or one that finds a threshold per image
        return
    image, low = thresholds.image.value, thresholds.image_floor
    pixel, pixel_low = thresholds.pixel.value, thresholds.pixel_floor
    values = (image, pixel, low, 2 * image - low, pixel_low, 2 * pixel - pixel_low)
    for name, value in zip(BUFFERS, values, strict=True):
        setattr(processor, name, torch.full_like(getattr(processor, name), value))
    hold(processor)


def hold(processor: Any) -> None:
    """Make validation leave the thresholds alone."""
    for name in HOOKS:
        setattr(processor, name, leave_alone)


def leave_alone(*_args: Any, **_keywords: Any) -> None:
    """Stands before the validation hooks of a calibrated model's post-processor."""


def threshold_state(model: Any) -> dict[str, Tensor]:
    """The post-processor's buffers, to be given back by `restore_thresholds`."""
    processor = model.post_processor
    return {name: getattr(processor, name) for name in BUFFERS} if isinstance(processor, PostProcessor) else {}


def restore_thresholds(model: Any, state: dict[str, Tensor]) -> None:
    """Undo `set_thresholds`."""
    processor = model.post_processor
    for name, value in state.items():
        setattr(processor, name, value.to(getattr(processor, name).device))
    for name in HOOKS:
        if processor is not None and name in vars(processor):
            delattr(processor, name)
