"""Where the part is in the image, found from the station's own features: planted defects belong on it.

The corners of the image show what the part lies on, wherever all four look alike. A cell belongs to the part if its mean
feature is far from the nearest corner's; Otsu's rule says what far is. The largest connected region counts, holes
included. Where the corners differ among each other as the rest does, there is no outline to be found: a surface that
fills the image has none, and then every cell counts as part.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import adaptive_avg_pool2d

from sparcal.types import Features

IMAGES = 32  # of the station's, for the mean
GRID = 12  # coarse cells along a side: finer ones show the texture of the corners, coarser ones show the part in them
ALIKE = (
    0.6  # corners may differ by this share of what the part differs from them; a surface's differ by about all of it
)
SHARES = (0.05, 0.97)  # of the cells that a part may cover


@dataclass(frozen=True, eq=False)
class Outline:
    """The cells that show the part, (h, w), and one sentence about how they were found."""

    cells: NDArray[np.bool_]
    sentence: str


def find_outline(reference: Features) -> Outline:
    """The outline of a station's parts, on the grid of the first level."""
    level = reference.levels[0]
    step = max(1, len(level) // IMAGES)
    mean = torch.stack([one.double() for one in level[::step]]).mean(dim=0)  # (h, w, d)
    h, w = mean.shape[:2]
    coarse = adaptive_avg_pool2d(mean.permute(2, 0, 1), (min(GRID, h), min(GRID, w))).permute(1, 2, 0)
    coarse = coarse / coarse.std(dim=(0, 1)).clamp_min(torch.finfo(torch.float64).tiny)
    corners = coarse[[0, 0, -1, -1], [0, -1, 0, -1]]  # (4, d)
    distance = torch.cdist(coarse.flatten(0, 1), corners).amin(dim=1).reshape(coarse.shape[:2]).cpu().numpy()
    far = distance > otsu(distance.ravel())
    everywhere = np.ones((h, w), bool)
    if not far.any() or float(torch.cdist(corners, corners).max()) > ALIKE * float(distance[far].mean()):
        return Outline(everywhere, "The part has no outline that stands out from the corners: all of the image counts.")
    part = _laid_over(largest_region(far), h, w)
    share = float(part.mean())
    if not SHARES[0] <= share <= SHARES[1]:
        return Outline(
            everywhere, f"The outline found covers {share:.0%} of the image, too much or too little: all of it counts."
        )
    return Outline(part, f"The part covers {share:.0%} of the image.")


def largest_region(far: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The largest connected region, by shared edges, with its holes; the first of equals."""
    outside = cv2.connectedComponents((~np.pad(far, 1)).astype(np.uint8), connectivity=4)[1]
    filled = (outside != outside[0, 0])[1:-1, 1:-1]
    regions = cv2.connectedComponents(filled.astype(np.uint8), connectivity=4)[1]
    largest: NDArray[np.bool_] = regions == 1 + int(np.argmax(np.bincount(regions.ravel())[1:]))
    return largest


def _laid_over(coarse: NDArray[np.bool_], h: int, w: int) -> NDArray[np.bool_]:
    """A coarse mask on a grid of h x w cells."""
    rows, columns = np.arange(h) * coarse.shape[0] // h, np.arange(w) * coarse.shape[1] // w
    return coarse[np.ix_(rows, columns)]


def otsu(values: NDArray[np.float64]) -> float:
    """The limit that splits values best into two groups: the variance between these is largest."""
    ordered = np.sort(values)
    n = len(ordered)
    if n < 2 or ordered[0] == ordered[-1]:
        return float(ordered[-1])
    below = np.arange(1, n)
    sums = np.cumsum(ordered)[:-1]
    gap = sums / below - (ordered.sum() - sums) / (n - below)
    best = int(np.argmax(below * (n - below) * gap**2))
    return float((ordered[best] + ordered[best + 1]) / 2)
