"""Parts that stand apart: one of the lot's among the others, and the station's own above the lot's. What they count for.

A part that stands alone under its light is scored, when it is left out, by a reference that has never seen that light. In
service the light has been shown once, and for a correction that learns from each part (`CorrectionFacts.learns_each`) that
is nearly enough: parts under it score a little above those in company. So it counts LIGHT of the way from the highest in
company to its own score. What is planted on it says nothing either (`in_company`).

A part whose score all below it would let one part in a thousand reach stands apart too, and so does every part above that,
whatever sets it apart. If the lot has many such parts, they must not all be rejected; if it is odd in itself, it must not
raise the threshold above every defect: it counts as ODD_AT_MOST times the highest in company at most.

The station's own parts are many, but nobody has verified them one by one, and one odd part among them must not set the
threshold of every lot: each counts as OWN_AT_MOST times the highest of the lot at most.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sparcal.calibration.log_scores import Floats, are_ratios, forward, prediction_limit

OWN_AT_MOST = 1.25  # times the highest of the lot: what a part of the station's own counts for at most
APART = 0.001  # chance of a score so high, by what the others say, below which a part stands apart
LIGHT = 0.25  # of the way from the highest in company to the score of a part alone under its light
ODD_AT_MOST = 1.5  # times the highest in company: what a part counts for at most that stands apart by its score alone
IN_COMPANY = 4  # parts in company without which scores alone set nobody apart
UNDER_SHOWN_LIGHT = 3  # parts in company without which those alone under their light count in full


def stand_apart(own: Floats, lot: Floats, alone: Sequence[bool], *, by_score: bool = True) -> NDArray[np.bool_]:
    """Which of the lot's parts stand apart; none where too few would be left in company.

    Args:
        alone: which stand alone under their light, as the check of that name found; none unless given.
        by_score: whether those with the highest scores do too, where the scores below do not explain them.
    """
    by_light = ~in_company(alone, len(lot))
    if not by_score:
        return by_light
    ranks = lot.argsort(kind="stable").argsort(kind="stable")
    apart: NDArray[np.bool_] = by_light | (ranks >= _explained(own, np.sort(lot)))
    return apart if len(lot) - apart.sum() >= IN_COMPANY else by_light


def in_company(alone: Sequence[bool], k: int) -> NDArray[np.bool_]:
    """Which of k parts have another one under their light; all of them where too few would be left.

    Args:
        alone: which stand alone under their light; none unless given.
    """
    together = ~np.asarray(alone, bool) if len(alone) else np.ones(k, bool)
    return together if together.sum() >= UNDER_SHOWN_LIGHT else np.ones(k, bool)


def _explained(own: Floats, ordered: Floats) -> int:
    """How many of these scores, from the lowest on, explain each other: the next one lies above what they let through."""
    for company in range(IN_COMPANY, len(ordered)):
        below = ordered[:company]
        if ordered[company] > prediction_limit(not_far_above(own, below), below, APART):
            return company
    return len(ordered)


def in_part(lot: Floats, apart: NDArray[np.bool_], alone: Sequence[bool]) -> Floats:
    """The scores with those of parts that stand apart brought towards the highest in company."""
    ratios, by_light = are_ratios(lot), np.asarray(alone, bool) if len(alone) else np.zeros(len(lot), bool)
    scores = forward(lot, ratios=ratios)
    highest = scores[~apart].max()
    step = math.log(ODD_AT_MOST) if ratios else 3 * scores[~apart].std()
    counted = np.where(by_light, highest + LIGHT * (scores - highest), np.minimum(scores, highest + step))
    return np.where(apart & (scores > highest), np.exp(counted) if ratios else counted, lot)


def not_far_above(own: Floats, lot: Floats) -> Floats:
    """The station's scores, none above OWN_AT_MOST times the lot's highest; as they are where they have no factor."""
    return np.minimum(own, OWN_AT_MOST * lot.max()) if are_ratios(own, lot) else own
