"""Thresholds from good parts only: the score above which a part is rejected, for a false-reject rate that was asked for.

Two kinds of good parts are at hand. The station's own, scored out of fold under the lot's reference: many, but not of
the lot. The lot's, each scored by what the others alone would have calibrated: of the lot, but a few.

    pooled           both count, where agreement is shown: a 90 % confidence interval of the difference of their mean log
                     scores lies within half a standard deviation of the station's. Few parts cannot show that: about
                     16 are needed to succeed at all, and `power_of_agreement` says how often they do. The threshold is
                     the conformal order statistic of rank ceil((n + 1)(1 - rate)): of parts that are exchangeable with
                     the pool no more than `rate` are rejected on average, whatever their distribution.
    lot              only the lot speaks, and its k samples support the rate, that is rate >= 1 / (k + 1): the conformal
                     order statistic of the lot alone, for lots of at least SUPPORTED_FROM parts.
    lot with margin  only the lot speaks, and its samples are too few: the prediction limit of a normal distribution of
                     log scores, about the lot's own mean. The spread is the lot's and the station's, weighted by k - 1
                     and BORROWED degrees of freedom. Normality is an assumption, and the threshold says so. The limit
                     is never below the order statistic of the lot, which needs no assumption, or its highest score
                     where the samples do not support the rate: a part that was verified as good is not rejected.

A lower rate never gives a lower threshold.

A part that stands apart from the others (`standing_apart`) counts in part for where the threshold lies, and in full for
what cannot be promised (`supported`, `ceiling`).

What the lot says never puts the threshold below the one that the station's own parts would need: good parts of a lot are
not expected to look better than training parts. But nobody has verified those one by one, and one odd part among them must
not set the threshold of every lot: for all but the pool, each counts as OWN_AT_MOST times the highest in company at most.

A rate that holds on average is not yet one that holds for the lot at hand: the samples may have been lucky. The share of
all parts above the r-th smallest of n samples follows a beta distribution with n + 1 - r and r, whatever theirs is, so
each threshold also states what 19 of 20 lots stay below. docs/explanation/thresholds.md has the measured rates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from sparcal.calibration.log_scores import Floats, are_ratios, forward, prediction_limit
from sparcal.errors import DataError
from sparcal.settings import finite_number, in_short, is_number

Basis = Literal["own", "pooled", "lot", "lot with margin", "by hand"]

SURE = 0.95  # 19 of 20 lots
EQUIVALENT = 0.5  # of the station's standard deviation: means that differ by less agree
SIGNIFICANT = 0.05
SUPPORTED_FROM = 19  # parts of a lot from which on its order statistics count: so many support a rate of 5 %
BINS = 24


@dataclass(frozen=True)
class Threshold:
    """A score above which a part is rejected, and what it rests on.

    Args:
        false_reject: the rate asked for; None for a threshold that was set by hand.
        supported: the smallest rate that the samples behind `value` support on average without any assumption.
        ceiling: the rate that 19 of 20 such lots stay below, without any assumption.
        free: whether the rate holds for any distribution, given exchangeable parts.
        agreement: the chance of lot scores this close to the station's if their means differ by EQUIVALENT; agreement is
            shown where it is small. None without lot scores.
    """

    value: float
    basis: Basis
    false_reject: float | None
    supported: float | None
    ceiling: float | None
    free: bool
    own: int
    lot: int
    agreement: float | None
    sentence: str

    def to_json(self) -> dict[str, Any]:
        """Plain values; `from_json` gives the same threshold back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Threshold:
        """The threshold that `to_json` wrote."""
        return cls(**data)


def find_threshold(
    own: Sequence[float] | Floats, lot: Sequence[float] | Floats, false_reject: float, *, alone: Sequence[bool] = ()
) -> Threshold:
    """The threshold for a false-reject rate, from the out-of-fold scores of good parts.

    Args:
        own: scores of the station's own good parts.
        lot: left-out scores of the lot's good parts; empty before a lot is calibrated.
        false_reject: share of good parts that may be rejected, above 0 and below 1.
        alone: which of the lot's parts stand alone under their light; none unless given.
    """
    from sparcal.calibration.standing_apart import in_part, not_far_above, stand_apart  # opening a station needs none

    mine, theirs = _checked(own, "own"), _checked(lot, "lot")
    check_rate(false_reject)
    if len(mine) + len(theirs) == 0:
        raise DataError("A threshold needs the scores of at least one good part, got none: give more good images.")
    if len(theirs) == 0 or len(mine) == 0:
        only: Basis = "own" if len(mine) else "lot"
        return _from_one(mine if len(mine) else theirs, only, false_reject)
    apart = stand_apart(mine, theirs, alone, by_score=len(theirs) < SUPPORTED_FROM)
    near = not_far_above(mine, theirs[~apart])
    differ = chance_of_difference(theirs, near)
    if sum(alone) == 0 and not apart.any() and differ < SIGNIFICANT:
        return _from_pool(mine, theirs, false_reject, differ)
    return _from_lot(near, theirs, false_reject, differ, in_part(theirs, apart, alone))


def by_hand(value: float) -> Threshold:
    """A threshold that a person chose."""
    finite_number(value, "A threshold set by hand", least=0, hint="give a score")
    sentence = f"The threshold {value:.6g} was set by hand; no false-reject rate is promised."
    return Threshold(value, "by hand", None, None, None, False, 0, 0, None, sentence)


def check_rate(false_reject: float) -> None:
    """Refuse a rate outside 0 to 1."""
    if not (is_number(false_reject) and 0 < false_reject < 1):
        raise DataError(
            f"The false-reject rate must be above 0 and below 1, got {in_short(false_reject)}: "
            "0.01 rejects one good part in 100."
        )


def conformal_rank(n: int, rate: float) -> int | None:
    """ceil((n + 1)(1 - rate)), the rank whose score a new exchangeable part exceeds with probability at most `rate`.

    None where n samples do not reach: no score among them is high enough.
    """
    rank = math.ceil((n + 1) * (1 - rate) - 1e-9)  # 1 - 0.1 is a little less than 0.9
    return max(rank, 1) if rank <= n else None


def ceiling(n: int, rank: int) -> float:
    """The share of all parts above the `rank`-th smallest of n in the worst but one of 20 samples: a quantile of Beta."""
    from scipy.special import betaincinv  # beta.ppf without the second that scipy.stats takes to import

    return float(betaincinv(n + 1 - rank, rank, SURE))


def chance_of_difference(lot: Floats, own: Floats) -> float:
    """The chance of means this close if the lot's log scores really differ by EQUIVALENT of the station's deviation.

    Two one-sided Welch tests; the larger chance counts. A small one shows agreement.
    """
    from scipy.special import stdtr

    if len(lot) < 2 or len(own) < 2:
        return 1.0
    x, y = (forward(scores, ratios=are_ratios(own, lot)) for scores in (lot, own))
    limit = EQUIVALENT * float(y.std(ddof=1))
    a, b = float(x.var(ddof=1)) / len(x), float(y.var(ddof=1)) / len(y)
    if a + b == 0:
        return 0.0 if abs(float(x.mean() - y.mean())) <= limit else 1.0
    freedom = (a + b) ** 2 / (a**2 / (len(x) - 1) + b**2 / (len(y) - 1))
    gap, error = float(x.mean() - y.mean()), math.sqrt(a + b)
    return float(max(stdtr(freedom, (gap - limit) / error), stdtr(freedom, -(gap + limit) / error)))


def power_of_agreement(k: int, n: int) -> float:
    """How often k parts of a lot that equals the station's n in distribution show it, for normal log scores."""
    from scipy.special import ndtr, stdtrit

    error = math.sqrt(1 / k + 1 / n)
    room = EQUIVALENT / error - float(stdtrit(k + n - 2, 1 - SIGNIFICANT))
    return float(max(0.0, 2 * ndtr(room) - 1))


def histogram(own: Sequence[float] | Floats, lot: Sequence[float] | Floats) -> dict[str, list[float]]:
    """Edges of equal bins over both, and how many scores of each fall into them."""
    mine, theirs = np.asarray(own, dtype=np.float64), np.asarray(lot, dtype=np.float64)
    both = np.concatenate([mine, theirs])
    low, high = float(both.min()), float(both.max())
    edges = np.linspace(low, high if high > low else low + 1.0, BINS + 1)
    return {
        "edges": [float(edge) for edge in edges],
        "own": [float(count) for count in np.histogram(mine, edges)[0]],
        "lot": [float(count) for count in np.histogram(theirs, edges)[0]],
    }


def _from_one(scores: Floats, whose: Basis, rate: float) -> Threshold:
    n = len(scores)
    value, reaches, most = _order_statistic(scores, rate)
    own, lot = (n, 0) if whose == "own" else (0, n)
    parts = (
        f"{n} good parts of the station, each scored as if it were new"
        if whose == "own"
        else f"{n} good parts of the lot"
    )
    if reaches:
        sentence = (
            f"At most {_percent(rate)} of good parts are rejected on average, and at most {most:.1%} in 19 of 20 cases, if they "
            f"are like the {parts}."
        )
    else:
        sentence = (
            f"{n} good parts cannot support a false-reject rate of {_percent(rate)}, only {_percent(1 / (n + 1))}: the threshold is "
            f"the highest score of {parts}, and in 19 of 20 cases rejects at most {most:.1%}."
        )
    return Threshold(value, whose, rate, 1 / (n + 1), most, reaches, own, lot, None, sentence)


def _from_pool(own: Floats, lot: Floats, rate: float, differ: float) -> Threshold:
    pool = np.concatenate([own, lot])
    value, reaches, most = _order_statistic(pool, rate)
    n = len(pool)
    start = f"The lot's {len(lot)} good parts score like the station's own {len(own)}, so all count together: "
    end = (
        _kept(rate, most)
        if reaches
        else f"{n} good parts cannot support a false-reject rate of {_percent(rate)}, only {_percent(1 / (n + 1))}, and the threshold "
        f"is their highest score, above which lie at most {most:.1%} in 19 of 20 lots."
    )
    return Threshold(value, "pooled", rate, 1 / (n + 1), most, reaches, len(own), len(lot), differ, start + end)


def _from_lot(own: Floats, lot: Floats, rate: float, differ: float, counted: Floats) -> Threshold:
    k, floor = len(lot), _order_statistic(own, rate)[0]
    value, reaches, most = _order_statistic(counted, rate)
    lone = int((counted != lot).sum())
    free, supported = reaches and lone == 0 and k >= SUPPORTED_FROM, 1 / (k + 1)
    if not free:
        value = max(prediction_limit(own, counted, rate), value)
    taken = max(value, floor)
    less = f", {lone} in part because nothing else that was shown is like it" if lone else ""
    sentence = f"The lot's own {k} good parts count{less}: "
    if free:
        sentence += _kept(rate, most)
    else:
        below = int((lot <= taken).sum())
        supported, most = 1 - below / (k + 1), ceiling(k, below) if below else 1.0
        sentence += (
            f"about {_percent(rate)} of good parts are rejected on average, if their scores spread like these and like the "
            f"station's. Without that assumption {k} parts promise less: at most {supported:.1%} on average, and at most "
            f"{most:.0%} in 19 of 20 lots."
        )
    if floor > value:
        sentence += (
            f" They alone would put the threshold at {value:.4g}; the station's own good parts raise it to {taken:.4g}."
        )
    basis: Basis = "lot" if free else "lot with margin"
    return Threshold(taken, basis, rate, supported, most, free, len(own), k, differ, sentence)


def _percent(share: float) -> str:
    """Three digits at most: 5%, 0.5%, 2.44%."""
    return f"{100 * share:.3g}%"


def _kept(rate: float, most: float) -> str:
    return f"at most {_percent(rate)} of good parts are rejected on average, and at most {most:.1%} in 19 of 20 lots."


def _order_statistic(scores: Floats, rate: float) -> tuple[float, bool, float]:
    """The conformal order statistic, or the largest score and False where the samples do not reach; and its ceiling."""
    n, rank = len(scores), conformal_rank(len(scores), rate)
    taken = n if rank is None else rank
    return float(np.sort(scores)[taken - 1]), rank is not None, ceiling(n, taken)


def _checked(scores: Sequence[float] | Floats, name: str) -> Floats:
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1 or not np.isfinite(values).all():
        raise DataError(f"The {name} scores must be a list of finite numbers, got shape {values.shape}: check them.")
    return values
