"""Where nothing can be compared: a correction is taken as it is, and the thresholds need further good parts of the lot."""

from __future__ import annotations

import copy

from sparcal.calibration.defaults import AUTO
from sparcal.corrections import CORRECTIONS
from sparcal.errors import DataError
from sparcal.types import Correction, Features

ONE_SIDED = "sparc"  # what "auto" comes to here: the paper's own correction
FEWEST_FOLDED = 3  # training images with which every fold of Padim still has the two that a covariance needs


def why_unchecked(correction: str | Correction, reference: Features | None, *, held_out: bool) -> str | None:
    """Why nothing can be left out or planted, None where it can, or a DataError where there is no threshold either.

    Args:
        reference: training features; None for a model whose trained side stays as it is.
        held_out: whether further good parts of the lot are at hand.
    """
    if reference is None or unfitted(correction, one_sided=False)[1].on == "test":
        if not held_out:
            raise DataError(
                "A correction of test features alone needs further good images of the lot for its threshold, got no "
                "held_out=: the trained reference cannot be scored out of fold."
            )
        return "test features alone are corrected, which cannot be tried on parts left out"
    if len(reference) >= FEWEST_FOLDED:
        return None
    if not held_out or correction == AUTO:
        raise DataError(
            f"LotCalibrator needs at least {FEWEST_FOLDED} training images to score them out of fold, got "
            f"{len(reference)}: name a correction, and pass good images of the lot as held_out=."
        )
    return f"{len(reference)} training images are too few to score them out of fold"


def unfitted(correction: str | Correction, *, one_sided: bool) -> tuple[str, Correction]:
    """The name of a correction, and one to be fitted, on the test side alone where the model asks for that."""
    if isinstance(correction, str):
        name = ONE_SIDED if correction == AUTO else correction
        made = CORRECTIONS[name]()
    else:
        name, made = type(correction).__name__, copy.copy(correction)
    if one_sided:
        made.on = "test"
    return name, made
