"""What a calibration starts from: the fitted station, as far as it matters for a lot."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from sparcal.calibration.held_out import Folds, spaced
from sparcal.imaging.preprocess import Geometry
from sparcal.types import Detector, Features, keeps_rows

FEW_IMAGES = 32  # of the station's, for comparing candidates; the one taken is judged again on all


@dataclass(frozen=True, eq=False)
class CalibrationInputs:
    """A station as a calibration sees it.

    Args:
        detector: fitted on `reference`, uncorrected.
        geometries: of the training images.
        hashes: of the training images.
        own: out-of-fold image scores and highest pixels of the station's own parts by its own reference.
        folds: in which those were scored.
    """

    detector: Detector
    reference: Features
    geometries: Sequence[Geometry]
    hashes: Sequence[str]
    own: tuple[Tensor, Tensor]
    folds: Folds
    workers: int = 1

    def few(self) -> CalibrationInputs:
        """The same with at most FEW_IMAGES images, and of a coreset the rows that lie in them; without folds."""
        if len(self.reference) <= FEW_IMAGES:
            return self
        kept = spaced(len(self.reference), FEW_IMAGES)
        reference = self.reference[kept]
        return replace(
            self,
            detector=_on_images(self.detector, reference, kept),
            reference=reference,
            geometries=[self.geometries[i] for i in kept],
            hashes=[self.hashes[i] for i in kept],
            folds=Folds((), ()),
        )


def _on_images(detector: Detector, reference: Features, kept: Sequence[int]) -> Detector:
    """The detector on the features of some images only."""
    if not keeps_rows(detector):
        return copy.copy(detector).fit(reference)
    cells = reference.levels[0].shape[1] * reference.levels[0].shape[2]
    place = torch.full((int(detector.rows.max()) // cells + 1,), -1)
    place[[i for i in kept if i < len(place)]] = torch.tensor([n for n, i in enumerate(kept) if i < len(place)])
    image = place[detector.rows // cells]
    rows = image[image >= 0] * cells + (detector.rows % cells)[image >= 0]
    return detector.restricted_to(reference, rows)
