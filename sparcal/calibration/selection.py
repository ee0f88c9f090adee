"""Which correction suits a lot: the one under which planted defects stand out best from good parts that were left out.

Every candidate judges the same planted images. How well these stand out is the chance that a planted defect scores
higher than a good part (the area under the ROC curve), which needs no threshold and has no scale. The best candidate
is taken, unless a simpler one comes within one standard error of it, paired over the planted images: what chance alone
could have reversed does not justify a more complicated correction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from torch import Tensor

from sparcal.calibration.choice import Choice, Trial
from sparcal.calibration.held_out import HeldOut
from sparcal.calibration.thresholds import Floats
from sparcal.corrections import CORRECTIONS, STATION_REFERENCE
from sparcal.sparc import SPARC


@dataclass(frozen=True)
class CandidateCorrection:
    """A correction that `auto` may take: its name, and the settings in which it differs from the registry's entry."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """In words."""
        rank = self.settings.get("rank")
        return self.name if rank is None else f"{self.name} with rank {rank}"


def candidates(k: int) -> tuple[CandidateCorrection, ...]:
    """What `auto` compares for k normals, the simplest first.

    Removing k - 1 directions is the paper's choice. With more normals, fewer directions may be enough, and leave more of
    a defect in place.
    """
    offered = sorted((entry.auto, name) for name, entry in CORRECTIONS.items() if entry.auto is not None)
    found: list[CandidateCorrection] = []
    for _, name in offered:
        entry = CORRECTIONS[name]
        ranks = lower_ranks(k) if entry.kind is SPARC and entry.settings else ()
        found += [CandidateCorrection(name), *(CandidateCorrection(name, {"rank": rank}) for rank in ranks)]
    return tuple(found)


def lower_ranks(k: int) -> tuple[int, ...]:
    """Ranks below k - 1 that are worth a trial."""
    return tuple(sorted({rank for rank in ((k - 1) // 4, (k - 1) // 2) if rank >= 2}))


def choose(tried: Sequence[tuple[CandidateCorrection, HeldOut]]) -> tuple[CandidateCorrection, tuple[Trial, ...]]:
    """The candidate to take, and what was compared.

    Args:
        tried: the simplest first, each with the same planted images.
    """
    placements = [placement(held.planted.image, held.good.image) for _, held in tried if held.planted is not None]
    areas = [float(one.mean()) for one in placements]
    best = int(np.argmax(areas))
    behind = [standard_errors(placements[best], one) for one in placements]
    taken = next(number for number, gap in enumerate(behind) if gap <= 1)
    trials = tuple(
        Trial(candidate.name, dict(candidate.settings), area, gap)
        for (candidate, _), area, gap in zip(tried, areas, behind, strict=True)
    )
    return tried[taken][0], trials


def placement(planted: Tensor, good: Tensor) -> Floats:
    """(n,): the share of good parts that each planted defect scores above; their mean is the area under the ROC curve."""
    defects, parts = planted.double().numpy()[:, None], good.double().numpy()[None, :]
    shares: Floats = ((defects > parts) + 0.5 * (defects == parts)).mean(axis=1)
    return shares


def standard_errors(best: Floats, other: Floats) -> float:
    """How far the mean of `other` lies below that of `best`, in standard errors of their paired difference."""
    gap = best - other
    if len(gap) < 2 or float(gap.std()) == 0:
        return 0.0 if float(gap.mean()) <= 0 else float("inf")
    return float(gap.mean() / (gap.std(ddof=1) / np.sqrt(len(gap))))


def asked_for(name: str, settings: Mapping[str, Any] | None = None) -> Choice:
    """A correction that somebody named."""
    title = CandidateCorrection(name, settings or {}).title
    return Choice(name, dict(settings or {}), None, f"{title} was asked for.", ())


def described(
    choice: Choice, *, planted: int, before: int | None, after: int | None, k: int, asked: bool = False
) -> Choice:
    """The choice with its sentence in full, once it is known how many planted defects are found before and after.

    Args:
        k: the number of normals.
        asked: whether somebody named the correction.
    """
    title = CandidateCorrection(choice.correction, choice.settings).title
    end = " It was asked for by name." if asked else ""
    if after is None or before is None:
        sentence = f"{title} is taken unchecked, because {k} images are too few to leave one out: show at least 3.{end}"
        return replace(choice, helps=None, sentence=sentence)
    start = f"Of {planted} planted defects the station's own reference"
    if choice.correction == STATION_REFERENCE:
        kept = "" if asked else _why_kept(choice, k)
        return replace(choice, helps=None, sentence=f"{start} finds {before}{kept}.{end}")
    clearer = "no more are found, but they stand out more clearly" if choice.trials else "it does not help"
    result = "calibrated" if after > before else clearer
    sentence = f"{start} would find {before}, {title} {after}: {result}.{end}"
    return replace(choice, helps=after > before, sentence=sentence)


def _why_kept(choice: Choice, k: int) -> str:
    reason = (
        "and no correction makes them stand out more clearly"
        if choice.trials
        else f"the lot looks like the training parts, and {k} images are too few to compare corrections"
    )
    return f", {reason}: the station keeps its reference"
