"""The rows of a reference that a detector keeps, packed cell by cell, so that a correction works on these alone.

A coreset keeps about a tenth of a station's features. Correcting all of them for every part that is left out would be
nine tenths in vain. Corrections treat every feature by its cell and not by its image, so kept rows of one cell are
stacked as if they came from as many images: few images, with gaps, instead of all.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sparcal.types import Features


@dataclass(frozen=True, eq=False)
class ThinReference:
    """Kept rows of a reference.

    Args:
        features: (m, h, w, d), m the most rows that any cell keeps; gaps are zero.
        rows: where the kept rows lie in it, in the order in which they were kept.
    """

    features: Features
    rows: Tensor


def thin_out(reference: Features, rows: Tensor) -> ThinReference:
    """Pack these rows of the first level.

    Args:
        rows: (m,), counting the n h w features of the reference image by image.
    """
    level = reference.levels[0]
    h, w, d = level.shape[1:]
    rows = rows.to(level.device)
    cell = rows % (h * w)
    order = cell.argsort(stable=True)
    counts = torch.bincount(cell, minlength=h * w)
    starts = counts.cumsum(0) - counts
    slot = torch.empty_like(rows)
    slot[order] = torch.arange(len(rows), device=rows.device) - starts[cell[order]]
    packed = level.new_zeros(int(counts.max()), h * w, d)
    packed[slot, cell] = level.flatten(0, 2)[rows]
    return ThinReference(Features((packed.reshape(-1, h, w, d),)), slot * (h * w) + cell)
