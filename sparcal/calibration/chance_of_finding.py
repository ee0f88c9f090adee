"""How likely a defect of a given size and contrast is found: a hit/miss model of two variables by maximum likelihood.

    p(a, c) = ceiling / (1 + exp(-(b0 + b1 log a + b2 log c)))

The detection curve knows sizes alone and averages over the contrasts that were planted. Whoever knows what the defects of
a product look like knows both, and then planted defects foretell real ones much better: docs/explanation/planted-defects.md
has the figures. Neither a larger nor a stronger defect is harder to find, so b1 and b2 are not negative. Where all were
found, or none, the likelihood has no top; a small penalty on the slopes gives it one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sparcal.calibration.detection_curve import CEILINGS
from sparcal.calibration.log_scores import Floats
from sparcal.settings import finite_number

PENALTY = 0.02  # times the squared slopes, beside log likelihoods: it decides only what the defects leave open
STEEPEST = 12.0
STARTS = (1.0, 3.0)  # slopes: the likelihood may have more than one top


class ChanceOfFinding:
    """The model that fits hits and misses best.

    Args:
        sizes: of the planted defects, in pixels.
        contrasts: of the same, in grey levels.
        found: whether each was found.
    """

    def __init__(self, sizes: Sequence[float], contrasts: Sequence[float], found: Sequence[bool]) -> None:
        logs = np.log(np.column_stack([sizes, contrasts]))
        self._middle = logs.mean(axis=0)
        self._best = _fit(logs - self._middle, np.asarray(found, dtype=bool))

    def at(self, pixels: float, contrast: float) -> float:
        """The chance for a defect of this extent in pixels, which differs from a good part by so many grey levels."""
        finite_number(pixels, "The size of a defect", above=0, hint="give its largest extent in pixels")
        finite_number(contrast, "The contrast of a defect", above=0, most=255, hint="give a mean of grey levels")
        return float(chance_of_both(np.log([[pixels, contrast]]) - self._middle, self._best)[0])


def chance_of_both(logs: Floats, parameters: Floats) -> Floats:
    """p for rows of (log size, log contrast) and (b0, b1, b2, ceiling)."""
    share: Floats = parameters[3] / (1 + np.exp(-np.clip(parameters[0] + logs @ parameters[1:3], -60, 60)))
    return share


def loss(parameters: Floats, logs: Floats, hit: NDArray[np.bool_]) -> float:
    """Minus the log likelihood of hits and misses, and the penalty."""
    p = np.clip(chance_of_both(logs, parameters), 1e-9, 1 - 1e-9)
    return PENALTY * float((parameters[1:3] ** 2).sum()) - float(np.where(hit, np.log(p), np.log1p(-p)).sum())


def _fit(logs: Floats, hit: NDArray[np.bool_]) -> Floats:
    from scipy.optimize import minimize

    limits = [(-60.0, 60.0), (0.0, STEEPEST), (0.0, STEEPEST), CEILINGS]
    starts = [np.array([0.0, by_size, by_contrast, 0.97]) for by_size in STARTS for by_contrast in STARTS]
    tried = [minimize(loss, start, args=(logs, hit), bounds=limits, method="L-BFGS-B") for start in starts]
    return np.asarray(min(tried, key=lambda one: float(one.fun)).x, dtype=np.float64)
