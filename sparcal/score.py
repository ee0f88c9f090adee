"""Score a lot: fit the correction on its normals, rebuild the reference, judge the test images (paper, section 3)."""

from __future__ import annotations

import copy

from sparcal.sparc import check_finite
from sparcal.types import Correction, Detector, Features, Scores


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
    """
    check_finite(test, "The test features")
    if reference is not None:
        check_finite(reference, "The reference features")
    fitted = copy.copy(correction).fit(calibration, reference)
    if reference is not None and fitted.on in ("both", "reference"):
        reference = fitted.apply_reference(reference)
    if fitted.on in ("both", "test"):
        test = fitted.apply(test)
    return copy.copy(detector).fit(reference).score(test)
