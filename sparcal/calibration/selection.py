"""Which correction suits a lot: decided by its own good parts, left out in turn, before anybody has seen a bad one.

Scores under different corrections are on different scales. What can be compared is how far the lot's parts lie above
the station's own under the same correction, in standard deviations of the logarithm of the station's scores: the lift.
No shift at all, or a shift that calibration has removed, gives a lift near 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sparcal.calibration.thresholds import DISAGREE, chance_of_higher

CANDIDATES = ("sparc-recentred", "sparc", "normals")
STATION_REFERENCE = "identity"  # the station's own reference, uncorrected


@dataclass(frozen=True)
class Trial:
    """How a lot's good parts fare under one correction.

    Args:
        lift: mean of `lifts`.
        chance: of lot scores this high among the station's own.
        lifts: of each normal, in standard deviations of the station's log scores.
    """

    correction: str
    lift: float
    chance: float
    lifts: tuple[float, ...]

    @property
    def shifted(self) -> bool:
        """Whether the lot's parts score higher than the station's own, beyond chance."""
        return self.chance < DISAGREE and self.lift > 0


@dataclass(frozen=True)
class Choice:
    """The correction taken, why, and what was compared.

    Args:
        helps: None where nothing could be left out.
        trials: the station's own reference first.
    """

    correction: str
    helps: bool | None
    sentence: str
    trials: tuple[Trial, ...]


def trial(correction: str, own: Tensor, lot: Tensor) -> Trial:
    """Compare a lot's left-out scores with the station's own."""
    mine, theirs = own.double().numpy(), lot.double().numpy()
    lifts = _lifts(mine, theirs)
    return Trial(
        correction, float(np.mean(lifts)), chance_of_higher(theirs, mine), tuple(float(value) for value in lifts)
    )


def choose(base: Trial, trials: Sequence[Trial], k: int) -> Choice:
    """The correction to try on the whole station, given the lot under its own reference and under each candidate.

    Args:
        trials: one per candidate; none where the k normals are too few to leave one out.
    """
    everything = (base, *trials)
    if not base.shifted:
        return _nothing_to_remove(base, everything)
    if not trials:
        sentence = (
            f"The lot is shifted ({_where(base.lift)} with the station's own reference), and {CANDIDATES[0]} is taken "
            f"unchecked, because {k} images are too few to leave one out: show at least 3."
        )
        return Choice(CANDIDATES[0], None, sentence, everything)
    best = min(trials, key=lambda one: one.lift)
    return replace(judge(base, best, asked=False), trials=everything)


def judge(base: Trial, tried: Trial, *, asked: bool) -> Choice:
    """Whether one correction helps against the station's own reference.

    Args:
        asked: it was asked for by name, so it is taken whether it helps or not.
    """
    if not base.shifted:
        nothing = _nothing_to_remove(base, (base, tried))
        if asked:
            sentence = f"{nothing.sentence.removesuffix('.')}, but {tried.correction} was asked for."
            return replace(nothing, correction=tried.correction, sentence=sentence)
        return nothing
    closer = sum(abs(after) < abs(before) for before, after in zip(base.lifts, tried.lifts, strict=True))
    k = len(base.lifts)
    helps = abs(tried.lift) < abs(base.lift) and 2 * closer > k
    facts = (
        f"left out in turn, the lot's good parts score {_where(base.lift)} with the station's own reference and "
        f"{_where(tried.lift)} with {tried.correction} ({closer} of {k} come closer)"
    )
    if helps:
        return Choice(tried.correction, True, f"Calibration helps: {facts}.", (base, tried))
    end = f"{tried.correction} was asked for" if asked else "the station keeps its own reference"
    taken = tried.correction if asked else STATION_REFERENCE
    return Choice(taken, False, f"Calibration does not help: {facts}; {end}.", (base, tried))


def _nothing_to_remove(base: Trial, everything: tuple[Trial, ...]) -> Choice:
    sentence = (
        f"There is nothing to remove: with the station's own reference the lot's {len(base.lifts)} good parts score "
        f"{_where(base.lift)} (chance {base.chance:.2f}), so the station keeps it."
    )
    return Choice(STATION_REFERENCE, False, sentence, everything)


def _lifts(own: NDArray[np.float64], lot: NDArray[np.float64]) -> NDArray[np.float64]:
    if (own > 0).all() and (lot > 0).all():
        own, lot = np.log(own), np.log(lot)
    lifts: NDArray[np.float64] = (lot - own.mean()) / max(float(own.std()), 1e-6)
    return lifts


def _where(lift: float) -> str:
    return f"{abs(lift):.1f} spreads {'above' if lift >= 0 else 'below'} its own parts"
