"""The probability of detection over a defect's size: a hit/miss model by maximum likelihood (MIL-HDBK-1823A).

    p(a) = floor + (ceiling - floor) / (1 + exp(-(log a - log a0) / s))

The floor is the share of good parts that is rejected anyway. The ceiling allows for defects that are missed at any size,
because their contrast is too low. a50 and a90 are the sizes found in half and in nine tenths of the cases; the bound of
a90 is the largest size that a profile likelihood still allows at 95 %.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparcal.calibration.log_scores import Floats
from sparcal.settings import finite_number

FEWEST = 12  # defects, and FEWEST_EACH of them found and missed, below which no curve is drawn
FEWEST_EACH = 3
DEVIANCE = 2.706  # chi-square, one degree of freedom, one-sided 95 %
POINTS = 40  # of the curve that is kept for drawing
STEEP = (0.03, 3.0)  # widths of the transition, in e-foldings of the size
CEILINGS = (0.3, 1.0)


@dataclass(frozen=True)
class DetectionCurve:
    """How likely a planted defect of a given size is found.

    Args:
        a50, a90: sizes in pixels; None where the curve does not reach them within the sizes that were planted.
        a90_bound: the size that a90 stays below with 95 % confidence; None where the samples do not support one.
        sizes, chances: the curve, for drawing.
        sentence: what can be said, in words.
    """

    a50: float | None
    a90: float | None
    a90_bound: float | None
    ceiling: float | None
    sizes: tuple[float, ...]
    chances: tuple[float, ...]
    sentence: str

    def at(self, pixels: float) -> float | None:
        """The chance that a defect of this size is found; None without a curve.

        Sizes that were not planted count as the nearest that was.
        """
        finite_number(pixels, "The size of a defect", above=0, hint="give its largest extent in pixels")
        return float(np.interp(np.log(pixels), np.log(self.sizes), self.chances)) if self.sizes else None

    def to_json(self) -> dict[str, Any]:
        """Plain values; `from_json` gives the same curve back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> DetectionCurve:
        """The curve that `to_json` wrote."""
        return cls(**{**data, "sizes": tuple(data["sizes"]), "chances": tuple(data["chances"])})


def detection_curve(sizes: Sequence[float], found: Sequence[bool], *, floor: float) -> DetectionCurve:
    """The curve that fits hits and misses best.

    Args:
        sizes: of the planted defects, in pixels.
        found: whether each was found.
        floor: chance of a reject without a defect.
    """
    a, hit = np.asarray(sizes, dtype=np.float64), np.asarray(found, dtype=bool)
    n, hits = len(a), int(hit.sum())
    smallest, largest = (float(a.min()), float(a.max())) if n else (0.0, 0.0)
    if n >= FEWEST and n - hits < FEWEST_EACH:
        return _none(f"Nearly all were found, from {smallest:.0f} pixels on: the sizes planted show no limit.")
    if n < FEWEST or hits < FEWEST_EACH:
        return _none(f"{hits} of {n} were found: too few to say how it depends on the size.")
    best, fit = _fit(a, hit, floor)
    a50, a90 = (_size_at(share, best, floor, smallest, largest) for share in (0.5, 0.9))
    bound = None if a90 is None else _bound(a, hit, floor, fit, a90, largest)
    at = np.geomspace(smallest, largest, POINTS)
    return DetectionCurve(
        a50, a90, bound, float(best[2]), tuple(at.tolist()), tuple(chance(at, best, floor).tolist()),
        _sentence(a50, a90, bound, best[2], largest),
    )  # fmt: skip


def chance(a: Floats, parameters: Floats, floor: float) -> Floats:
    """p(a) for (log a0, s, ceiling)."""
    middle, width, ceiling = parameters
    share: Floats = 1 / (1 + np.exp(-np.clip((np.log(a) - middle) / width, -60, 60)))
    risen: Floats = floor + (max(float(ceiling), floor) - floor) * share
    return risen


def log_likelihood(parameters: Floats, a: Floats, hit: NDArray[np.bool_], floor: float) -> float:
    """Of hits and misses under the model."""
    p = np.clip(chance(a, parameters, floor), 1e-9, 1 - 1e-9)
    return float(np.where(hit, np.log(p), np.log1p(-p)).sum())


def _fit(a: Floats, hit: NDArray[np.bool_], floor: float) -> tuple[Floats, float]:
    """The best parameters, and their log likelihood, from several starts: the likelihood may have more than one top."""

    def loss(parameters: Floats) -> float:
        return -log_likelihood(parameters, a, hit, floor)

    return _smallest(loss, a, _limits(a))


def _bound(a: Floats, hit: NDArray[np.bool_], floor: float, fit: float, a90: float, largest: float) -> float | None:
    """The largest size at which p = 0.9 is still within the deviance, where a profile of the likelihood crosses it."""
    from scipy.optimize import brentq

    def deviance(size: float) -> float:
        def loss(rest: Floats) -> float:
            width, ceiling = rest
            share = (0.9 - floor) / (max(ceiling, 0.9001) - floor)
            middle = np.log(size) + width * np.log(1 / share - 1)  # puts p(size) at 0.9
            return -log_likelihood(np.array([middle, width, max(ceiling, 0.9001)]), a, hit, floor)

        return 2 * (fit - _smallest(loss, a, _limits(a)[1:])[1])

    if deviance(largest) < DEVIANCE:
        return None
    if deviance(a90) >= DEVIANCE:  # where the curve lies above 0.9 from the smallest size on
        return a90
    root = brentq(lambda size: deviance(float(np.exp(size))) - DEVIANCE, np.log(a90), np.log(largest), xtol=1e-6)
    return float(np.exp(root))


def _limits(a: Floats) -> list[tuple[float, float]]:
    return [(float(np.log(a.min())) - 2, float(np.log(a.max())) + 2), STEEP, CEILINGS]


def _smallest(loss: Callable[[Floats], float], a: Floats, limits: list[tuple[float, float]]) -> tuple[Floats, float]:
    """Where the loss is smallest, and minus its value there."""
    from scipy.optimize import minimize

    middles = np.quantile(np.log(a), (0.25, 0.5, 0.75)) if len(limits) == 3 else (None,)
    best: tuple[Floats, float] | None = None
    for middle in middles:
        for width in (0.2, 0.7):
            start = np.array([*(() if middle is None else (middle,)), width, 0.95])
            tried = minimize(loss, start, bounds=limits, method="L-BFGS-B")
            if best is None or -float(tried.fun) > best[1]:
                best = np.asarray(tried.x, dtype=np.float64), -float(tried.fun)
    assert best is not None
    return best


def _size_at(share: float, best: Floats, floor: float, smallest: float, largest: float) -> float | None:
    middle, width, ceiling = best
    if ceiling <= share or share <= floor:
        return None
    inside = (share - floor) / (ceiling - floor)
    size = float(np.exp(middle - width * np.log(1 / inside - 1)))
    return max(size, smallest) if size <= largest else None


def _none(sentence: str) -> DetectionCurve:
    return DetectionCurve(None, None, None, None, (), (), sentence)


def _sentence(a50: float | None, a90: float | None, bound: float | None, ceiling: float, largest: float) -> str:
    if a50 is None:
        return f"Even of the largest, {largest:.0f} pixels, fewer than half are found."
    half = f"Half of the defects of {a50:.0f} pixels are found"
    if a90 is None:
        return f"{half}; nine in ten are not reached at any size planted, {ceiling:.0%} at most: faint ones are missed."
    sure = (
        f" (with 95 % confidence from {bound:.0f} pixels on)" if bound is not None else ", too few samples for a bound"
    )
    return f"{half}, and nine in ten from {a90:.0f} pixels on{sure}."
