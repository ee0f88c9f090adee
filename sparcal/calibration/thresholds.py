"""Thresholds from good parts only: the score above which a part is rejected, for a false-reject rate that was asked for.

Two kinds of good parts are at hand. The station's own, scored out of fold under the lot's reference: many, but not of
the lot. The lot's, each scored by what the others alone would have calibrated: of the lot, but eight of them.

    agree      the lot's scores could be a draw from the station's: both are pooled, and the threshold is the conformal
               order statistic of rank ceil((n + 1)(1 - rate)); for parts that are exchangeable with the pool, no more
               than `rate` of them are rejected on average, whatever their distribution.
    disagree   the lot's scores are higher: only they speak for the lot. Where k samples support the rate, that is
               rate >= 1 / (k + 1), the threshold is their conformal order statistic. Otherwise it is their largest score
               times a margin: the factor by which the largest of k of the station's own parts must be raised so that
               on average no more than `rate` of its other parts exceed it. The margin borrows the shape of the
               station's distribution; that is an assumption, and the threshold says so. The larger of this and the
               threshold of the station's own parts counts.

A rate that holds on average is not yet one that holds for the lot at hand: the samples may have been lucky. The share of
all parts above the r-th smallest of n samples follows a beta distribution with n + 1 - r and r, whatever theirs is, so
each threshold also states what 19 of 20 lots stay below. docs/thresholds.md has the measured rates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparcal.errors import DataError

Basis = Literal["own", "pooled", "lot", "lot with margin", "by hand"]
Floats = NDArray[np.float64]

SURE = 0.95  # 19 of 20 lots
DISAGREE = 0.05  # chance below which the lot's scores do not pass for a draw from the station's
BINS = 24


@dataclass(frozen=True)
class Threshold:
    """A score above which a part is rejected, and what it rests on.

    Args:
        false_reject: the rate asked for; None for a threshold that was set by hand.
        supported: the smallest rate that the samples behind `value` support on average without any assumption.
        ceiling: the rate that 19 of 20 such lots stay below, without any assumption.
        free: whether the rate holds for any distribution, given exchangeable parts.
        agreement: the chance of lot scores this high among the station's own; None without lot scores.
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


def find_threshold(own: Sequence[float] | Floats, lot: Sequence[float] | Floats, false_reject: float) -> Threshold:
    """The threshold for a false-reject rate, from the out-of-fold scores of good parts.

    Args:
        own: scores of the station's own good parts.
        lot: left-out scores of the lot's good parts; empty before a lot is calibrated.
        false_reject: share of good parts that may be rejected, above 0 and below 1.
    """
    mine, theirs = _checked(own, "own"), _checked(lot, "lot")
    check_rate(false_reject)
    if len(mine) + len(theirs) == 0:
        raise DataError("A threshold needs the scores of at least one good part, got none: give more good images.")
    if len(theirs) == 0 or len(mine) == 0:
        only: Basis = "own" if len(mine) else "lot"
        return _from_one(mine if len(mine) else theirs, only, false_reject)
    agreement = chance_of_higher(theirs, mine)
    if agreement >= DISAGREE:
        return _from_pool(mine, theirs, false_reject, agreement)
    return _from_lot(mine, theirs, false_reject, agreement)


def by_hand(value: float) -> Threshold:
    """A threshold that a person chose."""
    if not math.isfinite(value):
        raise DataError(f"A threshold set by hand must be a finite number, got {value}: give a score.")
    sentence = f"The threshold {value:.6g} was set by hand; no false-reject rate is promised."
    return Threshold(value, "by hand", None, None, None, False, 0, 0, None, sentence)


def check_rate(false_reject: float) -> None:
    """A DataError for a rate that is none."""
    if not 0 < false_reject < 1:
        raise DataError(
            f"The false-reject rate must be above 0 and below 1, got {false_reject}: 0.01 rejects one good part in 100."
        )


def conformal_rank(n: int, rate: float) -> int | None:
    """ceil((n + 1)(1 - rate)), the rank whose score a new exchangeable part exceeds with probability at most `rate`.

    None where n samples do not reach: no score among them is high enough.
    """
    rank = math.ceil((n + 1) * (1 - rate) - 1e-9)  # 1 - 0.1 is a little less than 0.9
    return max(rank, 1) if rank <= n else None


def ceiling(n: int, rank: int) -> float:
    """The share of all parts that lies above the `rank`-th smallest of n, in the worst but one of 20 samples.

    The share above follows Beta(n + 1 - rank, rank) for any continuous distribution; ties only make it smaller.
    """
    from scipy.special import betaincinv  # beta.ppf without the second that scipy.stats takes to import

    return float(betaincinv(n + 1 - rank, rank, SURE))


def chance_of_higher(lot: Floats, own: Floats) -> float:
    """The chance that a random draw from both together lies as high as `lot` does, by rank sum and by largest score.

    The rank sum sees a shift of all scores, the largest one a single part far above the others; the smaller of the two
    chances is doubled, because either could have struck.
    """
    from scipy.stats import mannwhitneyu

    n, k = len(own), len(lot)
    by_ranks = float(mannwhitneyu(lot, own, alternative="greater").pvalue)
    top = 1 + int((own >= lot.max()).sum())  # rank of the lot's largest score from above, ties against it
    # None of the k falls among the `top` highest of all n + k, with what chance?
    none = math.exp(_log_choose(n + k - top, k) - _log_choose(n + k, k)) if n >= top else 0.0
    return min(1.0, 2 * min(by_ranks, 1 - none))


def margin(own: Floats, k: int, rate: float) -> float:
    """The smallest factor >= 1 by which the largest of k parts must be raised so that on average at most `rate` exceed it.

    Exact over all draws of k from `own`: the i-th smallest is the largest of C(i - 1, k - 1) of the C(n, k) draws.
    Where scores are not all positive it is a difference to add, not a factor; see `raised`.
    """
    n = len(own)
    if n <= k:
        return 1.0 if _ratios(own) else 0.0
    scale = np.sort(_forward(own, ratios=_ratios(own)))
    chance = np.array([math.exp(_log_choose(i, k - 1) - _log_choose(n, k)) if i >= k - 1 else 0.0 for i in range(n)])

    def exceeded(step: float) -> float:
        above = n - np.searchsorted(scale, scale + step + 1e-12, side="right")  # a + (b - a) can fall short of b
        return float((chance * above).sum()) / (n - k)

    gaps = np.unique((scale[None, :] - scale[:, None])[np.triu_indices(n)])
    low, high = 0, len(gaps) - 1  # at the largest gap nothing is exceeded
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if exceeded(gaps[middle]) <= rate else (middle + 1, high)
    return float(math.exp(gaps[low])) if _ratios(own) else float(gaps[low])


def raised(value: float, by: float, own: Floats) -> float:
    """`value` raised by a margin that `margin(own, ...)` gave."""
    return value * by if _ratios(own) else value + by


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
        f"{n} of the station's own good parts, scored out of fold" if whose == "own" else f"{n} good parts of the lot"
    )
    if reaches:
        sentence = (
            f"At most {rate:.2%} of good parts are rejected on average, and {most:.1%} in 19 of 20 cases, if they are like "
            f"the {parts}."
        )
    else:
        sentence = (
            f"{n} good parts cannot support a false-reject rate of {rate:.2%}, only {1 / (n + 1):.2%}: the threshold is "
            f"the highest score of {parts}, and in 19 of 20 cases rejects at most {most:.1%}."
        )
    return Threshold(value, whose, rate, 1 / (n + 1), most, reaches, own, lot, None, sentence)


def _from_pool(own: Floats, lot: Floats, rate: float, agreement: float) -> Threshold:
    pool = np.concatenate([own, lot])
    value, reaches, most = _order_statistic(pool, rate)
    n = len(pool)
    start = (
        f"Left out in turn, the lot's {len(lot)} good parts score like the station's own {len(own)} "
        f"(chance {agreement:.2f}), so all count together: "
    )
    end = (
        f"at most {rate:.2%} of good parts are rejected on average, and {most:.1%} in 19 of 20 lots."
        if reaches
        else f"{n} good parts cannot support a false-reject rate of {rate:.2%}, only {1 / (n + 1):.2%}, and the threshold "
        f"is their highest score, above which lie at most {most:.1%} in 19 of 20 lots."
    )
    return Threshold(value, "pooled", rate, 1 / (n + 1), most, reaches, len(own), len(lot), agreement, start + end)


def _from_lot(own: Floats, lot: Floats, rate: float, agreement: float) -> Threshold:
    k = len(lot)
    value, reaches, most = _order_statistic(lot, rate)
    start = (
        f"Left out in turn, the lot's {k} good parts score higher than the station's own {len(own)} "
        f"(chance {agreement:.2g}), so only they count: "
    )
    if reaches:
        end = f"at most {rate:.2%} of good parts are rejected on average, and {most:.1%} in 19 of 20 lots."
    else:
        by = margin(own, k, rate)
        value = raised(value, by, own)
        how = f"times {by:.3g}" if _ratios(own) else f"plus {by:.3g}"
        end = (
            f"{k} samples cannot support a false-reject rate of {rate:.2%}, only {1 / (k + 1):.2%} on average and "
            f"{most:.1%} in 19 of 20 lots, and the threshold is their highest score {how}, the margin that the spread of "
            "the station's own parts asks for."
        )
    floor, _, _ = _order_statistic(own, rate)
    basis: Basis = "lot" if reaches else "lot with margin"
    return Threshold(max(value, floor), basis, rate, 1 / (k + 1), most, reaches, len(own), k, agreement, start + end)


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


def _ratios(own: Floats) -> bool:
    """Whether a margin is a factor: scores are distances, so they are positive, but no rule says so."""
    return bool((own > 0).all())


def _forward(scores: Floats, *, ratios: bool) -> Floats:
    return np.log(scores) if ratios else scores


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) if 0 <= k <= n else -math.inf
