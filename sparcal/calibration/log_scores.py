"""Scores of good parts on a logarithmic scale, and what a further part stays below.

Scores are distances, so a part that is twice as far is twice as odd wherever the others lie: differences count as factors.
No rule says that scores are positive, though; where one is not, the scores count as they are.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BORROWED = 12  # degrees of freedom that the station's spread lends to a lot's


def are_ratios(*scores: Floats) -> bool:
    """Whether differences count as factors."""
    return all(bool((values > 0).all()) for values in scores)


def forward(scores: Floats, *, ratios: bool) -> Floats:
    """The scores on the scale on which they are compared."""
    return np.log(scores) if ratios else scores


def prediction_limit(own: Floats, lot: Floats, rate: float) -> float:
    """What a further part of the lot exceeds with probability `rate`, if log scores are normal about the lot's mean.

    mean + t s sqrt(1 + 1 / k), with the spread s of both and t on k - 1 + BORROWED degrees of freedom, or what there is.
    """
    from scipy.special import stdtrit

    ratios = are_ratios(own, lot)
    x, y = forward(lot, ratios=ratios), forward(own, ratios=ratios)
    k, borrowed = len(x), min(BORROWED, max(len(y) - 1, 0))
    squares = float(((x - x.mean()) ** 2).sum()) + (borrowed * float(y.var(ddof=1)) if borrowed else 0.0)
    freedom = k - 1 + borrowed
    if freedom == 0:
        return float(lot.max())
    step = float(stdtrit(freedom, 1 - rate)) * math.sqrt(squares / freedom * (1 + 1 / k))
    limit = float(x.mean()) + step
    return math.exp(limit) if ratios else limit
