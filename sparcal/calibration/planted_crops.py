"""Cut-outs around planted defects, for people: what was planted can be looked at, and judged by eye."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

EDGE = 144  # pixels of a cut-out at native size; a larger defect is shrunk to fit
ROOM = 1.3  # times the defect's extent


@dataclass(frozen=True, eq=False)
class Crop:
    """A square of an image with a defect in it.

    Args:
        pixels: (p, p, 3), RGB; p is at most EDGE.
        box: left, top, width and height of the defect, as shares of the square.
        scale: 1 at native size, less where it was shrunk.
    """

    pixels: NDArray[np.uint8]
    box: tuple[float, float, float, float]
    scale: float


def crop_around(image: NDArray[np.uint8], mask: NDArray[np.bool_]) -> Crop:
    """The square around the pixels of a mask; around the middle of the image where the mask is empty."""
    y, x = np.nonzero(mask)
    if len(y) == 0:
        y, x = (np.array([n // 2]) for n in mask.shape)
    top, bottom, left, right = int(y.min()), int(y.max()) + 1, int(x.min()), int(x.max()) + 1
    short = min(mask.shape)
    edge = min(short, max(min(EDGE, short // 2), round(ROOM * max(bottom - top, right - left))))
    start = [
        int(np.clip((low + high - edge) // 2, 0, n - edge))
        for low, high, n in ((top, bottom, mask.shape[0]), (left, right, mask.shape[1]))
    ]
    square = image[start[0] : start[0] + edge, start[1] : start[1] + edge]
    box = (left - start[1]) / edge, (top - start[0]) / edge, (right - left) / edge, (bottom - top) / edge
    if edge <= EDGE:
        return Crop(square.copy(), box, 1.0)
    shrunk = np.asarray(cv2.resize(square, (EDGE, EDGE), interpolation=cv2.INTER_AREA), np.uint8)
    return Crop(shrunk, box, EDGE / edge)
