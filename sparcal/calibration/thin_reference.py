"""The rows of a reference that a detector keeps, cell by cell, so that a correction works on these alone.

A coreset keeps about a tenth of a station's features. Correcting all of them for every part that is left out would be
nine tenths in vain. Corrections treat every feature by its cell and not by its image. Some take single rows; for the others,
rows of one cell are stacked as if they came from as many images: few images, with gaps, instead of all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeGuard

import torch
from torch import Tensor

from sparcal.score import reference_side
from sparcal.types import Correction, Features


class CorrectsRows(Correction, Protocol):
    """A correction that can take some cells of a reference for themselves, so that the others need no work."""

    def apply_reference_rows(self, rows: Tensor, cells: Tensor) -> Tensor:
        """What `apply_reference` makes of single features of the first level, (m, d).

        Args:
            cells: (m,), ascending: which of the h w cells each lies in.
        """
        ...


def corrects_rows(correction: Correction) -> TypeGuard[CorrectsRows]:
    """Whether the correction can take single features of a reference."""
    return hasattr(type(correction), "apply_reference_rows")


@dataclass(frozen=True, eq=False)
class ThinReference:
    """Kept rows of a reference; make one with `thin_out`.

    Args:
        rows: (m, d), by cell.
        cells: (m,), ascending: the cell of each.
        places: (m,), where the kept rows lie among these, in the order in which they were kept.
        grid: h and w.
    """

    rows: Tensor
    cells: Tensor
    places: Tensor
    grid: tuple[int, int]

    def corrected_by(self, correction: Correction) -> tuple[Features, Tensor, int]:
        """Corrected features, where the kept rows lie among them, in order, and how many images hold these.

        A correction that adds images puts them behind.
        """
        if corrects_rows(correction) and correction.on != "test":
            corrected = correction.apply_reference_rows(self.rows, self.cells)
            return Features((corrected[None, None],)), self.places, 1
        packed, at = self._stacked()
        return reference_side(correction, packed), at, len(packed)

    def _stacked(self) -> tuple[Features, Tensor]:
        """(n, h, w, d) with gaps of zeros, n the most rows that any cell keeps; and where the kept rows lie in it."""
        h, w = self.grid
        counts = torch.bincount(self.cells, minlength=h * w)
        starts = counts.cumsum(0) - counts
        slot = torch.arange(len(self.cells), device=self.cells.device) - starts[self.cells]
        stacked = self.rows.new_zeros(int(counts.max()), h * w, self.rows.shape[1])
        stacked[slot, self.cells] = self.rows
        return Features((stacked.unflatten(1, (h, w)),)), (slot * (h * w) + self.cells)[self.places]


def thin_out(reference: Features, rows: Tensor) -> ThinReference:
    """These rows of the first level.

    Args:
        rows: (m,), counting the n h w features of the reference image by image.
    """
    level = reference.levels[0]
    h, w = level.shape[1:3]
    rows = rows.to(level.device)
    cells, order = (rows % (h * w)).sort(stable=True)
    places = torch.empty_like(order)
    places[order] = torch.arange(len(order), device=order.device)
    return ThinReference(level.flatten(0, 2)[rows[order]], cells, places, (h, w))
