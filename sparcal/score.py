"""Section 3 of the paper, once, for everybody: fit the correction on a lot's normals, rebuild the reference, judge."""

from __future__ import annotations

import copy
from dataclasses import dataclass

from sparcal.feature_checks import check_finite
from sparcal.settings import instance_of
from sparcal.types import Correction, Detector, Features, Scores, require_features


@dataclass(frozen=True, eq=False)
class CalibratedDetector:
    """A correction fitted on a lot's normals, and the detector rebuilt on the reference that it gives."""

    correction: Correction
    detector: Detector

    def score(self, features: Features) -> Scores:
        """Scores of test features."""
        return self.detector.score(judged_side(self.correction, features))


def score_lot(
    detector: Detector,
    test: Features,
    *,
    reference: Features | None,
    calibration: Features,
    correction: Correction,
) -> Scores:
    """Scores of `test` by `detector` once `correction` has been fitted on the lot's `calibration` normals.

    Neither `detector` nor `correction` is changed: copies are fitted, so one configured pair serves many lots.

    Args:
        reference: training features of normal images; None for detectors without a reference side.

    >>> import torch
    >>> from sparcal import SPARC
    >>> from sparcal.detectors import PaDiM
    >>> train, normals, lot = (Features((torch.randn(n, 4, 4, 16),)) for n in (20, 8, 5))
    >>> scores = score_lot(PaDiM(), lot, reference=train, calibration=normals, correction=SPARC())
    >>> scores.image.shape, scores.cell.shape
    (torch.Size([5]), torch.Size([5, 4, 4]))
    """
    instance_of(detector, "score_lot's detector", Detector, hint="make one, for instance PaDiM()")
    instance_of(correction, "score_lot's correction", Correction, hint="make one, for instance SPARC()")
    check_finite(require_features(test, "score_lot's test"), "The test features")
    if reference is not None:
        check_finite(require_features(reference, "score_lot's reference"), "The reference features")
    return rebuild(detector, correction, reference=reference, calibration=calibration).score(test)


def rebuild(
    detector: Detector, correction: Correction, *, reference: Features | None, calibration: Features
) -> CalibratedDetector:
    """Copies of correction and detector: the one fitted on the normals, the other on the reference side it gives."""
    fitted = copy.copy(correction).fit(calibration, reference)
    side = None if reference is None else reference_side(fitted, reference)
    return CalibratedDetector(fitted, copy.copy(detector).fit(side))


def reference_side(correction: Correction, reference: Features) -> Features:
    """What the detector is rebuilt on."""
    return correction.apply_reference(reference) if correction.on in ("both", "reference") else reference


def judged_side(correction: Correction, features: Features) -> Features:
    """What the detector judges."""
    return correction.apply(features) if correction.on in ("both", "test") else features
