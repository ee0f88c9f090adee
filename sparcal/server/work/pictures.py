"""Pictures that the worker makes: thumbnails, a view of formats that browsers cannot show, heat maps."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

THUMB = 480
HEAT = 1024  # heat maps are smooth: more pixels show nothing more


def write_thumb(image: Image.Image, target: Path) -> None:
    """A small picture of an image."""
    small = image.copy()
    small.thumbnail((THUMB, THUMB), Image.Resampling.LANCZOS)
    _write(small, target, quality=82)


def write_view(image: Image.Image, target: Path) -> None:
    """The whole image, every pixel as it is."""
    _write(image, target, lossless=True)


def write_heat(heat: NDArray[Any], target: Path, *, low: float, high: float, clear: bool = False) -> None:
    """A map in turbo colours; pictures with the same `low` and `high` can be compared by eye.

    Args:
        clear: let cold places show what lies below, for a map that is laid over its image.
    """
    shrink = min(1.0, HEAT / max(heat.shape))
    if shrink < 1:
        size = (max(1, round(heat.shape[1] * shrink)), max(1, round(heat.shape[0] * shrink)))
        heat = cv2.resize(np.asarray(heat, np.float32), size, interpolation=cv2.INTER_AREA)
    level = np.clip((np.asarray(heat, np.float32) - low) * (255.0 / max(high - low, 1e-12)), 0, 255)
    colours = cv2.applyColorMap(np.rint(level).astype(np.uint8), cv2.COLORMAP_TURBO)
    picture = cv2.cvtColor(colours, cv2.COLOR_BGR2RGB)
    if clear:  # from nothing at a fifth of the scale to everything at three fifths
        alpha = np.clip((level - 51) * (255 / 102), 0, 255).astype(np.uint8)
        picture = np.dstack([picture, alpha])
    _write(Image.fromarray(picture), target, quality=88)


def _write(image: Image.Image, target: Path, *, quality: int = 80, lossless: bool = False) -> None:
    """Write a picture, whole or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        if max(image.size) > 16383:  # the largest side that WebP knows
            image.save(temporary, "PNG")
        else:
            image.save(temporary, "WEBP", quality=quality, lossless=lossless, method=2)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
