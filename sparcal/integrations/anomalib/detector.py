"""An anomalib model as a detector: the model's own code rebuilds its reference and scores features against it.

`sparcal.calibration` compares corrections, leaves parts out and sets thresholds with any detector; with this one it does
so for a model that anomalib has trained. The model itself is borrowed for each call and given back as it was.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch import Tensor

from sparcal.errors import DataError
from sparcal.imaging.maps import MapRule
from sparcal.integrations.anomalib.adapters import Adapter
from sparcal.integrations.anomalib.bank import find_rows
from sparcal.integrations.anomalib.passes import device_of, score_features, seeded
from sparcal.integrations.anomalib.reference_state import ReferenceState, put_reference, reference_state
from sparcal.types import Family, Features, Scores, fitted, require_reference

# A cell scores the highest pixel of the model's own map within it, so nothing is left to be drawn.
CELLS_AS_THEY_ARE = MapRule(cell_pixels=1, sigma=0, upsample="nearest")


@dataclass(eq=False)
class ModelDetector:
    """A model's scoring rule with a reference of its own choosing.

    Args:
        image_size: (H, W) of the preprocessed images that features come from.
        seed: of the coreset that anomalib draws.

    After `fit`: `state_`, the tensors of the reference; `rows_`, (m,), which of the n h w reference features a bank
    holds, None for models without one.
    """

    model: Any = field(repr=False)
    adapter: Adapter
    image_size: tuple[int, int]
    seed: int = 0
    map_rule: MapRule = CELLS_AS_THEY_ARE
    family: Family = field(default="reference", init=False)
    state_: ReferenceState | None = field(default=None, init=False, repr=False)
    rows_: Tensor | None = field(default=None, init=False, repr=False)

    def fit(self, reference: Features | None) -> Self:
        """Build the reference as the model does when it is trained."""
        features = require_reference(self, reference)
        with self._borrowed(), seeded(self.seed, device_of(self.model)):
            self.adapter.rebuild(self.model, features)
            self.state_ = reference_state(self.model, self.adapter)
            self.rows_ = self._bank_rows(features)
        if self.adapter.banked and self.rows_ is None:
            raise DataError(
                "The memory bank must be made of the features it was rebuilt from, got others: report this, with "
                "anomalib's version."
            )
        return self

    def fit_as_trained(self, reference: Features) -> Self:
        """Take over the reference that the model was trained with, if it is made of these features; else build it anew."""
        rows = self._bank_rows(reference)
        if rows is None:
            return self.fit(reference)
        self.state_, self.rows_ = reference_state(self.model, self.adapter), rows
        return self

    def score(self, features: Features) -> Scores:
        """The model's image scores, and the highest pixel of its maps within each cell."""
        state = fitted(self, self.state_)
        with self._borrowed():
            put_reference(self.model, state)
            return score_features(self.adapter, self.model, features, size=self.image_size)

    @property
    def thins(self) -> bool:
        """Whether the model keeps a coreset, whose choice costs more than all the rest."""
        return self.adapter.thins(self.model)

    @property
    def rows(self) -> Tensor:
        """(m,): which of the n h w reference features the bank holds."""
        return fitted(self, self.rows_)

    def restricted_to(self, reference: Features, rows: Tensor) -> Self:
        """A copy whose bank is these rows of another reference, with no selection."""
        thinned = copy.copy(self)
        (name,) = self.adapter.state
        thinned.state_, thinned.rows_ = {name: self.adapter.bank(self.model, reference)[rows]}, rows
        return thinned

    def _bank_rows(self, reference: Features) -> Tensor | None:
        """The rows of the bank that the model holds now; None without a bank, or where it holds other features."""
        if not self.adapter.banked:
            return None
        (held,) = reference_state(self.model, self.adapter).values()
        found = find_rows(held, self.adapter.bank(self.model, reference))
        return None if found is None else found.cpu()

    @contextmanager
    def _borrowed(self) -> Iterator[None]:
        before = reference_state(self.model, self.adapter)
        try:
            yield
        finally:
            put_reference(self.model, before)


def rows_without_images(rows: Tensor, images: Sequence[int], *, cells: int) -> Tensor:
    """Rows less those of some images; the rows of later images move up to close the gaps."""
    gone = torch.tensor(sorted(images))
    image = rows // cells
    kept = ~torch.isin(image, gone)
    return rows[kept] - cells * torch.searchsorted(gone, image[kept])
