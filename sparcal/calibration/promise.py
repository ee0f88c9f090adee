"""Does the stream of judged parts contradict what a threshold promised?

A threshold states the share of good parts that 19 of 20 lots stay below. Parts are judged one by one and somebody looks
after each, so a test with a fixed number of parts would raise a false alarm sooner or later. This one may be looked at
as often as one likes: it bets against the promise, one part after the other, with a stake that no promise which holds
lets grow on average. Reaching 1 / SLIP once, at any time, then has a chance of at most SLIP (Ville's inequality).

The stake is the likelihood of the rejects seen, averaged over all rates above the promise, over that at the promise. It
depends on how many parts were judged and rejected and not on their order, so two counts are all that must be kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sparcal.calibration.thresholds import Threshold
from sparcal.errors import DataError

SLIP = 0.01  # chance that a promise which holds is ever called contradicted


@dataclass(frozen=True)
class PromiseCheck:
    """What the parts judged so far say about a threshold's promise.

    Args:
        promised: share of good parts that 19 of 20 lots stay below; None where nothing was promised.
        stake: what a bet of 1 against the promise has become; 0 where nothing was promised.
        contradicted: whether it has reached 1 / SLIP.
    """

    judged: int
    rejected: int
    promised: float | None
    stake: float
    contradicted: bool
    sentence: str


def check_promise(threshold: Threshold, judged: int, rejected: int) -> PromiseCheck:
    """Hold the parts judged by a threshold against its promise.

    Args:
        judged: parts since the threshold was set, of which `rejected` scored above it. Bad parts among them count too: the
            sentence leaves it to a person to tell many bad parts from a lot that the threshold does not fit.
    """
    if not 0 <= rejected <= judged:
        raise DataError(
            f"Of {judged} judged parts from 0 to {judged} can be rejected, got {rejected}: check the counts."
        )
    promised = threshold.ceiling
    if promised is None:
        return PromiseCheck(judged, rejected, None, 0.0, False, "This threshold promises no false-reject rate.")
    stake = stake_against(promised, judged, rejected)
    facts = f"{rejected} of {judged} parts were rejected, where at most {promised:.1%} of good parts were promised"
    if stake >= 1 / SLIP:
        sentence = (
            f"{facts}: chance does not explain that. If the rejected parts are good, or look alike all over, the lot has "
            "left what it was calibrated for: calibrate again, with parts as they come now."
        )
        return PromiseCheck(judged, rejected, promised, stake, True, sentence)
    return PromiseCheck(judged, rejected, promised, stake, False, f"{facts}: that does not contradict it.")


def stake_against(rate: float, judged: int, rejected: int) -> float:
    """What a bet of 1 against "no more than `rate` are rejected" has become, spread evenly over all higher rates.

    The mean over q from `rate` to 1 of (q / rate)^rejected ((1 - q) / (1 - rate))^(judged - rejected), by the incomplete
    beta function; infinite where it exceeds every float, and 0 below the smallest.
    """
    from scipy.special import betaincc, betaln

    if rate <= 0:
        return math.inf if rejected else 1.0 / (judged + 1)
    if rate >= 1:
        return 1.0  # nothing can contradict "all may be rejected"
    passed = judged - rejected
    tail = float(betaincc(rejected + 1, passed + 1, rate))
    if tail == 0:
        return 0.0
    log = float(betaln(rejected + 1, passed + 1)) + math.log(tail)
    log -= rejected * math.log(rate) + (passed + 1) * math.log1p(-rate)
    return math.exp(log) if log < 700 else math.inf
