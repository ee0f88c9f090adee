"""What is looked at among a station's own parts: nobody has verified them one by one."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from sparcal.calibration.check import Check
from sparcal.calibration.checks import FEW, NEAR, ODD, names_above
from sparcal.calibration.part_statistics import distances_among, log_spread, oddness
from sparcal.types import Features

TWINS_SHOWN = 5


def check_unlike(maps: Tensor, scores: Tensor, names: Sequence[str]) -> Check:
    """Whether some of a station's own parts do not look like the others: a defective one may have been taken for good.

    By level alone: among many parts one is always prominent.

    Args:
        maps: (n, h, w), cell scores of the parts, out of fold; `scores` (n,), their image scores.
    """
    if len(names) < FEW:
        return Check(
            "unlike the others", 0.0, "ok", f"{len(names)} parts are too few to tell which are unlike the others."
        )
    level, _ = oddness(maps, log_spread(scores))
    number = float(level.max())
    measure = f"{number:.1f} times as far from the others as good parts usually lie (limit {ODD})"
    odd = names_above(ODD, level, names)
    if not odd:
        return Check(
            "unlike the others", number, "ok", f"All parts look alike; the most conspicuous one lies {measure}."
        )
    verb = "does" if len(odd) == 1 else "do"
    sentence = f"{', '.join(odd)} {verb} not look like the others, {measure}: if one is defective, fit without it."
    return Check("unlike the others", number, "look", sentence, odd)


def check_twins(parts: Features, names: Sequence[str]) -> Check:
    """Whether two of a station's images show the same part: the parts then count for fewer than they seem."""
    distances = distances_among(parts)
    pairs = [(i, j) for i in range(len(names)) for j in range(i) if float(distances[i, j]) < NEAR]
    if not pairs:
        return Check("twins", 0.0, "ok", "All training images show different parts.")
    named = tuple(dict.fromkeys(names[i] for pair in pairs for i in pair))
    shown = "; ".join(f"{names[j]} and {names[i]}" for i, j in pairs[:TWINS_SHOWN])
    more = f"; and {len(pairs) - TWINS_SHOWN} more pairs" if len(pairs) > TWINS_SHOWN else ""
    sentence = f"These training images show the same part: {shown}{more}. Thresholds rest on fewer parts than it seems."
    return Check("twins", float(len(pairs)), "look", sentence, named)
