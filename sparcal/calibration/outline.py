"""Where the part is in the image, found from the station's own features: planted defects belong on it.

The corners of the image show what the part lies on, wherever all four look alike. A cell belongs to the part if its mean
feature is far from the nearest corner's; Otsu's rule says what far is. The largest connected region counts, holes
included.

Where the corners differ among each other as the rest does, something else tells part from scene: in front of a fixed
camera the scene stays the same from image to image, and the part does not. A cell belongs to the part if its features
vary much more than those along the edges; Otsu's rule says which do.

A surface that fills the image differs and varies everywhere alike. It has no outline, and every cell counts as part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from sparcal.types import Features

IMAGES = 32  # of the station's, for the mean
GRID = 12  # coarse cells along a side: finer ones show the texture of the corners, coarser ones show the part in them
ALIKE = (
    0.6  # corners may differ by this share of what the part differs from them; a surface's differ by about all of it
)
VARIES = 2.0  # times as much as the scene does: the part, from image to image; on surfaces the ratio is about 1.1
AT_EDGES = 0.5  # share of the cells along the edges that may vary: otherwise it is the scene that does
SHARES = (0.05, 0.97)  # of the cells that a part may cover
TOO_FEW = 6  # images below which nobody can tell what varies


@dataclass(frozen=True, eq=False)
class Outline:
    """The cells that show the part, (h, w), and one sentence about how they were found."""

    cells: NDArray[np.bool_]
    sentence: str


def find_outline(reference: Features) -> Outline:
    """The outline of a station's parts, on the grid of the first level."""
    level = reference.levels[0]
    step = max(1, len(level) // IMAGES)
    some = torch.stack([one.double() for one in level[::step]])  # (n, h, w, d)
    h, w = some.shape[1:3]
    everywhere = np.ones((h, w), bool)
    stands_out, how = _unlike_corners(some), ""
    if stands_out is None:
        stands_out, how = _varying(some), ", by what changes from image to image"
    if stands_out is None:
        return Outline(
            everywhere,
            "The part has no outline that stands out from the corners or from what stays the same: all of the image counts.",
        )
    part = _laid_over(largest_region(stands_out), h, w)
    share = float(part.mean())
    if not SHARES[0] <= share <= SHARES[1]:
        return Outline(
            everywhere, f"The outline found covers {share:.0%} of the image, too much or too little: all of it counts."
        )
    return Outline(part, f"The part covers {share:.0%} of the image{how}.")


def _unlike_corners(some: Tensor) -> NDArray[np.bool_] | None:
    """The coarse cells whose mean is far from all corners; None where the corners differ among each other."""
    coarse = _coarse(some.mean(dim=0))
    coarse = coarse / coarse.std(dim=(0, 1)).clamp_min(torch.finfo(torch.float64).tiny)
    corners = coarse[[0, 0, -1, -1], [0, -1, 0, -1]]  # (4, d)
    distance = torch.cdist(coarse.flatten(0, 1), corners).amin(dim=1).reshape(coarse.shape[:2]).cpu().numpy()
    far = distance > otsu(distance.ravel())
    if not far.any() or float(torch.cdist(corners, corners).max()) > ALIKE * float(distance[far].mean()):
        return None
    return far


def _varying(some: Tensor) -> NDArray[np.bool_] | None:
    """The coarse cells that vary much more from image to image than the rest; None where all vary alike, or the edges do."""
    if len(some) < TOO_FEW:
        return None
    variance = _coarse(some.var(dim=0).mean(dim=-1, keepdim=True))[..., 0].cpu().numpy()
    spread = np.sqrt(np.maximum(variance, np.finfo(np.float64).tiny))
    much: NDArray[np.bool_] = spread > math.exp(otsu(np.log(spread).ravel()))
    edges = np.ones_like(much)
    edges[1:-1, 1:-1] = False
    if not much.any() or spread[much].mean() < VARIES * spread[~much].mean() or much[edges].mean() > AT_EDGES:
        return None
    return much


def _coarse(grid: Tensor) -> Tensor:
    """A grid, (h, w, d), averaged to at most GRID cells along a side."""
    h, w = grid.shape[:2]
    return adaptive_avg_pool2d(grid.permute(2, 0, 1), (min(GRID, h), min(GRID, w))).permute(1, 2, 0)


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
