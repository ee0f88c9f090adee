"""What a calibration starts from: the fitted station, as far as it matters for a lot."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from sparcal.calibration.held_out import Folds, spaced
from sparcal.imaging.preprocess import Geometry
from sparcal.types import Detector, Features

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
        """The same with at most FEW_IMAGES images, without folds.

        A coreset is chosen anew: of one that covers all images together, the rows that lie in a few leave gaps.
        """
        if len(self.reference) <= FEW_IMAGES:
            return self
        kept = spaced(len(self.reference), FEW_IMAGES)
        reference = self.reference[kept]
        return replace(
            self,
            detector=copy.copy(self.detector).fit(reference),
            reference=reference,
            geometries=[self.geometries[i] for i in kept],
            hashes=[self.hashes[i] for i in kept],
            folds=Folds((), ()),
        )
