"""One image of a benchmark, and its mask."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from sparcal.errors import DataError
from sparcal.imaging.decode import FORMATS

Split = Literal["train", "validation", "test"]

_ALPHA = frozenset({"LA", "PA", "RGBA"})  # an opaque alpha channel would mark every pixel


@dataclass(frozen=True)
class Record:
    """What a benchmark's layout says about one image.

    Args:
        label: 0 normal, 1 anomalous.
        condition: the lighting or domain the image was taken under; "" where the benchmark names none.
        scene: names the physical object within its category, shared by all its captures; None where unknown.
        mask: None for normal images, and for anomalous ones that come without a mask.
    """

    category: str
    split: Split
    label: int
    condition: str
    scene: str | None
    image: Path
    mask: Path | None


def read_mask(record: Record, size: tuple[int, int]) -> NDArray[np.bool_]:
    """The anomalous pixels of an image; every value above zero counts, as class indices are masks too.

    Args:
        size: (H, W) of the native image; a mask of the same shape in another resolution is taken to it.
    """
    if record.label == 0:
        return np.zeros(size, dtype=bool)
    if record.mask is None:
        raise DataError(f"{record.image} is anomalous and must have a mask, got none: restore its ground truth file.")
    anomalous = np.asarray((np.atleast_3d(_pixels(record.mask)) > 0).any(axis=2))
    return _fitted(anomalous, size, record.mask)


def _pixels(path: Path) -> NDArray[Any]:
    """(H, W) or (H, W, channels): the stored numbers, not the colours that a palette gives them."""
    try:
        with Image.open(path, formats=FORMATS) as image:
            upright = ImageOps.exif_transpose(image)
            pixels = np.asarray(upright)
    except FileNotFoundError as error:
        raise DataError(f"{path} must be a mask image, got no file of that name: copy the benchmark again.") from error
    except Exception as error:  # a damaged file can make a decoder raise anything
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{path} must be a readable mask image, got {reason}: copy the benchmark again.") from error
    return pixels[..., :-1] if upright.mode in _ALPHA else pixels


def _fitted(mask: NDArray[np.bool_], size: tuple[int, int], path: Path) -> NDArray[np.bool_]:
    if mask.shape == size:
        return mask
    (h, w), (H, W) = mask.shape, size
    if abs(h * W - w * H) > max(H, W, h, w):  # more than one pixel off the same aspect ratio
        raise DataError(
            f"{path} must have the shape of its image, {H} x {W} (height x width), got {h} x {w}: "
            "check that it belongs to this image."
        )
    rows = (2 * np.arange(H) + 1) * h // (2 * H)
    columns = (2 * np.arange(W) + 1) * w // (2 * W)
    fitted: NDArray[np.bool_] = mask[rows[:, None], columns]
    return fitted
