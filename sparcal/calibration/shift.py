"""Has the stream left what was promised? A sequential test without labels, whose false alarms are bounded by construction.

Each number that is read of a part gets a p-value: its rank among all earlier parts. As long as nothing changes, parts could
have come in any order, so these ranks are uniform and independent whatever the distribution of what is read. After every
part a new bet is opened that the change began with it: the next ones will rank above everything that was before, or above
most of it. A bet pays what keeps its mean at 1 as long as ranks are uniform. All open bets together, weighted over all
numbers read, then grow by at most 1 per part on average, so they reach `one_in` after `one_in` parts at the earliest, on
average (Shiryaev-Roberts; Shin, Ramdas, Rinaldo: E-detectors, 2023; ranks: Vovk, Gammerman, Shafer, 2005).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sparcal.calibration.defaults import ONE_IN
from sparcal.calibration.sight import LASTING, SIDES, SUDDEN, PartReading

REMEMBERED = 5_000  # earlier parts that a new one is ranked among; the oldest are dropped first
OPEN = 60  # bets that are kept open; dropping older ones can only delay an alarm
# Three bets on each of SIDES: the share of the earlier parts that it expects the next one to rank above, and what it puts
# on that. What a defect could move wins at most 2.2 times its stake per part, too little for a burst of fifteen.
_SUDDEN, _LASTING, _STAKES = (1.0, 0.9, 0.7), (0.6, 0.5, 0.4), ((0.95, 0.85, 0.75), (0.85, 0.8, 0.8))
ABOVE = np.array([_SUDDEN] * len(SUDDEN) + [_LASTING] * len(LASTING))
STAKE = np.array([_STAKES[0]] * len(SUDDEN) + [_STAKES[1]] * len(LASTING))
# Any weights that add up to 1 keep the promise. Every other lamp changes the pattern, so it speaks for a good part of them.
OF_PATTERN, OF_LASTING = 0.3, 0.1
WEIGHT = np.where(np.array(SIDES) == "pattern", OF_PATTERN, (1 - OF_PATTERN - OF_LASTING) / (len(SUDDEN) - 1))
WEIGHT[len(SUDDEN) :] = OF_LASTING / len(LASTING)
_LARGEST = 1e200

FloatArray = NDArray[np.float64]


def payoff(p: FloatArray, earlier: FloatArray, parts: FloatArray) -> FloatArray:
    """(bets, sides, 3): what each open bet is multiplied by; of mean 1 at most when p is uniform or larger.

    Args:
        p: (sides,), of the new part.
        earlier: (bets,), how many parts were known when the bet was opened.
        parts: (bets,), parts since then, the new one included.
    """
    known, since = earlier[:, None, None], parts[:, None, None]
    # Of `since` parts that rank above that share of the known ones, the next ranks among the first of them all.
    chance = np.minimum((since + (1 - ABOVE) * known) / (known + since), 1.0)
    stake = np.maximum(STAKE, chance)
    lost = np.divide(1 - stake, 1 - chance, out=np.ones_like(chance), where=chance < 1)
    won: FloatArray = np.where(p[:, None] <= chance * (1 + 1e-12), stake / chance, lost)
    return won


@dataclass
class ShiftTest:
    """Earlier parts, and the bets that are open on the latest ones being different.

    Args:
        one_in: parts between two false alarms, on average at least.
    """

    one_in: int = ONE_IN
    seen: int = 0
    _bets: FloatArray = field(default_factory=lambda: np.zeros((0, *ABOVE.shape)), init=False, repr=False)
    _earlier: FloatArray = field(default_factory=lambda: np.zeros(0), init=False, repr=False)
    _order: deque[FloatArray] = field(default_factory=deque, init=False, repr=False)
    _sorted: list[list[float]] = field(default_factory=lambda: [[] for _ in SIDES], init=False, repr=False)

    @property
    def evidence(self) -> float:
        """All open bets together; an alarm is due once they reach `one_in`."""
        return float(self._together.sum())

    @property
    def _together(self) -> FloatArray:
        """(bets,), over all numbers read."""
        together: FloatArray = self._bets.mean(axis=2) @ WEIGHT
        return together

    @property
    def leading(self) -> str:
        """What speaks most clearly: one of SIDES."""
        return SIDES[int((self._bets.mean(axis=2).sum(axis=0) * WEIGHT).argmax())]

    @property
    def since(self) -> int:
        """The part, counted from 0, with which the change most likely began."""
        best = int(self._together.argmax()) if len(self._bets) else 0
        return self.seen - len(self._bets) + best

    def remember(self, readings: Iterable[PartReading]) -> None:
        """Take parts as known to be in order: others are ranked among them, and they prove nothing themselves."""
        for reading in readings:
            self._add(reading.yardsticks)

    def take(self, reading: PartReading) -> bool:
        """One more part of the stream; True if an alarm is due."""
        known = len(self._order)
        above = [known - bisect_left(each, value) for each, value in zip(self._sorted, reading.values, strict=True)]
        p = (1 + np.array(above, float)) / (1 + known)
        self._bets = np.concatenate([self._bets, np.ones((1, *self._bets.shape[1:]))])[-OPEN:]
        self._earlier = np.append(self._earlier, float(known))[-OPEN:]
        parts = np.arange(len(self._bets), 0, -1, dtype=float)
        self._bets = np.minimum(self._bets * payoff(p, self._earlier, parts), _LARGEST)
        self._add(reading.yardsticks)
        self.seen += 1
        return self.evidence >= self.one_in

    def _add(self, yardsticks: FloatArray) -> None:
        self._order.append(yardsticks)
        for known, value in zip(self._sorted, yardsticks.tolist(), strict=True):
            insort(known, value)
        if len(self._order) > REMEMBERED:
            for known, value in zip(self._sorted, self._order.popleft().tolist(), strict=True):
                del known[bisect_left(known, value)]
