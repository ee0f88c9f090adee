"""What an image looks like as a whole, coarsely: light, colour and sharpness by field, and a small picture to register."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from sparcal.imaging.preprocess import Geometry, Preprocess

FIELDS = ("brightness", "warmth", "tint", "sharpness")
FIELD_GRID = 16  # fields along each edge
PICTURE_EDGE = 96  # edge of the small picture in pixels
DARK = 0.02  # of full scale, added before a logarithm: differences below it are the sensor's
GRAIN = 0.002  # the same for detail
_LUMA = (0.299, 0.587, 0.114)

FieldArray = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Appearance:
    """One image, as far as its whole tells.

    Args:
        fields: (4, 16, 16), in the order of FIELDS; differences of logarithms, so that 0.1 is about ten percent.
        picture: (96, 96), grey, from 0 to 1.
    """

    fields: FieldArray
    picture: FieldArray


def appearance(pixels: FieldArray, geometry: Geometry, preprocess: Preprocess) -> Appearance:
    """Of an image as the encoder sees it, padding left out.

    Args:
        pixels: (3, H, W), preprocessed.
    """
    top, left, bottom, right = geometry.valid
    shown = pixels[:, top:bottom, left:right] * _column(preprocess.std) + _column(preprocess.mean)
    rgb = np.ascontiguousarray((shown[::-1] if preprocess.order == "bgr" else shown).transpose(1, 2, 0))
    rgb = np.clip(rgb * (preprocess.scale / 255), 0, 1)
    grey = np.asarray(rgb @ np.array(_LUMA, np.float32), np.float32)
    red, green, blue = (np.log(_shrunk(rgb[..., channel], FIELD_GRID) + DARK) for channel in range(3))
    brightness = np.log(_shrunk(grey, FIELD_GRID) + DARK)
    fields = np.stack([brightness, red - blue, green - (red + blue) / 2, _sharpness(grey)])
    return Appearance(fields.astype(np.float32), _shrunk(grey, PICTURE_EDGE))


def _sharpness(grey: FieldArray) -> FieldArray:
    """Finest detail against coarser detail: brighter light raises both alike, a lens out of focus takes the finest."""
    soft, softer = (cv2.GaussianBlur(grey, (0, 0), sigma) for sigma in (1.0, 3.0))
    fine, coarse = (_shrunk(np.abs(a - b), FIELD_GRID) for a, b in ((grey, soft), (soft, softer)))
    return np.asarray(np.log(fine + GRAIN) - np.log(coarse + GRAIN), np.float32)


def _shrunk(image: FieldArray, edge: int) -> FieldArray:
    return np.asarray(cv2.resize(image, (edge, edge), interpolation=cv2.INTER_AREA), np.float32)


def _column(values: tuple[float, float, float]) -> FieldArray:
    return np.array(values, np.float32)[:, None, None]
