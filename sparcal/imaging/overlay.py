"""A map of scores as colours over its photograph. No torch here."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from sparcal.errors import DataError, ShapeError


def overlay(
    image: NDArray[np.uint8], heat: NDArray[Any], *, low: float, high: float, opacity: float = 0.5
) -> NDArray[np.uint8]:
    """A map in turbo colours over its image, RGB.

    Args:
        image: (H, W, 3) RGB.
        heat: (H, W).
        low: score of the coldest colour; give all images of a page the same `low` and `high`.
        high: score of the hottest colour.
        opacity: 0 shows the image alone, 1 the map alone.
    """
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8 or heat.shape != image.shape[:2]:
        raise ShapeError(
            f"overlay needs a uint8 image (H, W, 3) and a map (H, W), got {image.dtype} {image.shape} and {heat.shape}."
        )
    if not (np.isfinite([low, high]).all() and high > low):
        raise DataError(f"overlay needs finite low < high, got {low} and {high}: widen the colour scale.")
    if not 0 <= opacity <= 1:
        raise DataError(f"overlay needs an opacity between 0 and 1, got {opacity}.")
    level = np.clip((np.asarray(heat, dtype=np.float32) - low) * (255.0 / (high - low)), 0, 255)
    colours = cv2.cvtColor(cv2.applyColorMap(np.rint(level).astype(np.uint8), cv2.COLORMAP_TURBO), cv2.COLOR_BGR2RGB)
    blended: NDArray[np.uint8] = cv2.addWeighted(image, 1.0 - opacity, colours, opacity, 0.0).astype(np.uint8)
    return blended
