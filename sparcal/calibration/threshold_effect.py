"""What a threshold does, wherever somebody moves it: good parts that it rejects, and planted defects that it finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparcal.calibration.log_scores import Floats
from sparcal.calibration.thresholds import Basis


@dataclass(frozen=True)
class ThresholdEffect:
    """Counts at one threshold.

    Args:
        good: good parts that count, of which `rejected` score above it.
        planted: plain planted defects, of which `found` score above it; both None without a self-test.
    """

    rejected: int
    good: int
    found: int | None
    planted: int | None

    @property
    def sentence(self) -> str:
        """In words, to stand beside the threshold."""
        start = f"rejects {self.rejected} of {self.good} good parts"
        return start if self.planted is None else f"{start}, finds {self.found} of {self.planted} planted"


def effect_of(threshold: float, good: Sequence[float], planted: Sequence[float] | None) -> ThresholdEffect:
    """What a threshold does to these scores.

    Args:
        good: of good parts; `counted` says which.
        planted: of good parts with a plain planted defect, as the self-test keeps them; None where there was no test.
    """
    rejected, n = rejected_share(good, threshold)
    if planted is None:
        return ThresholdEffect(rejected, n, None, None)
    found, all_planted = rejected_share(planted, threshold)
    return ThresholdEffect(rejected, n, found, all_planted)


def rejected_share(scores: Sequence[float] | Floats, threshold: float) -> tuple[int, int]:
    """How many of these good parts a threshold rejects, and of how many."""
    values = np.asarray(scores, dtype=np.float64)
    return int((values > threshold).sum()), len(values)


def counted(basis: Basis, own: Sequence[float], lot: Sequence[float]) -> list[float]:
    """The good parts that a threshold stands on: the lot's alone, unless they were shown to score like the station's.

    Args:
        basis: of the calibrated threshold, whatever somebody has set by hand since.
        own, lot: scores of the station's own parts and of the lot's.
    """
    if basis == "pooled":
        return [*own, *lot]
    return list(lot or own)
