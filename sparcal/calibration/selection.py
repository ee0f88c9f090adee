"""Which correction suits a lot: the one under which planted defects stand out best from good parts that were left out.

Every candidate judges the same planted images. How well these stand out is the chance that a planted defect scores
higher than a good part (the area under the ROC curve), which needs no threshold and has no scale. A few dozen defects on
eight parts tell large differences and not small ones, so the lot overrules experience only where it speaks clearly:
candidates stand in the order of what they are worth on average over many lots, and the first that comes within one
standard error of the best is taken. The part is the unit of that error (a jackknife over parts): all defects on one part
share its light, its place and its good score. A part that stands alone under its light has no say: left out, it is judged
by what has never seen that light, and in service it is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from torch import Tensor

from sparcal.calibration.choice import Choice, Trial
from sparcal.calibration.held_out import HeldOut
from sparcal.calibration.log_scores import Floats
from sparcal.corrections import CORRECTIONS, STATION_REFERENCE
from sparcal.sparc import SPARC

MOVED = " at a threshold moved to this lot"  # at its own, a station that rejects everything would find everything


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
    """What `auto` compares for k normals, what serves most lots best first.

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


def choose(
    tried: Sequence[tuple[CandidateCorrection, HeldOut]], part: Sequence[int], compared: Sequence[int] | None = None
) -> tuple[CandidateCorrection, tuple[Trial, ...]]:
    """The candidate to take, and what was compared.

    Args:
        tried: what serves most lots best first, each with the same planted images.
        part: which of the good parts each planted defect lies on.
        compared: the numbers of the good parts that count, all defects among them; all parts unless given.
    """
    goods = range(len(tried[0][1].good)) if compared is None else compared
    wins = [above(held.planted.image, held.good[goods].image) for _, held in tried if held.planted is not None]
    areas = [float(one.mean()) for one in wins]
    lies_on = [goods.index(one) for one in part]
    without = [areas_without(one, lies_on) for one in wins]
    best = int(np.argmax(areas))
    behind = [
        standard_errors(areas[best] - area, without[best] - left) for area, left in zip(areas, without, strict=True)
    ]
    taken = next(number for number, gap in enumerate(behind) if gap <= 1)
    trials = tuple(
        Trial(candidate.name, dict(candidate.settings), area, gap)
        for (candidate, _), area, gap in zip(tried, areas, behind, strict=True)
    )
    return tried[taken][0], trials


def above(planted: Tensor, good: Tensor) -> Floats:
    """(n, k): 1 where a planted defect scores above a good part, a half where equal; the mean is the area under the ROC."""
    defects, parts = planted.double().numpy()[:, None], good.double().numpy()[None, :]
    wins: Floats = (defects > parts) + 0.5 * (defects == parts)
    return wins


def areas_without(wins: Floats, part: Sequence[int]) -> Floats:
    """(k,): the area under the ROC curve without each part in turn, its good score and all defects planted on it."""
    lies_on, k = np.asarray(part), wins.shape[1]
    left = [wins[lies_on != j][:, np.arange(k) != j] for j in range(k)]
    return np.array([float(one.mean()) if one.size else 0.5 for one in left])


def standard_errors(gap: float, without: Floats) -> float:
    """A difference in standard errors, by the jackknife; 0 for none.

    Args:
        without: the same difference without each part in turn.
    """
    k = len(without)
    error = float(np.sqrt((k - 1) / k * np.square(without - without.mean()).sum()))
    if gap <= 0:
        return 0.0
    return gap / error if error > 0 else float("inf")


def asked_for(name: str, settings: Mapping[str, Any] | None = None) -> Choice:
    """A correction that somebody named."""
    title = CandidateCorrection(name, settings or {}).title
    return Choice(name, dict(settings or {}), None, f"{title} was asked for.", ())


def described(
    choice: Choice,
    *,
    planted: int,
    before: int | None,
    after: int | None,
    k: int,
    rejected: int | None = None,
    asked: bool = False,
) -> Choice:
    """The choice with its sentence in full, once it is known how many planted defects are found before and after.

    Args:
        before: found by the station's own reference at a threshold moved to the lot.
        k: the number of normals, of which the station would reject `rejected` as it is; None where that is not known.
        asked: whether somebody named the correction.
    """
    title = CandidateCorrection(choice.correction, choice.settings).title
    end = " It was asked for by name." if asked else ""
    if after is None or before is None:
        sentence = f"{title} is taken unchecked, because {k} images are too few to leave one out: show at least 3.{end}"
        return replace(choice, helps=None, sentence=sentence)
    as_it_is = (
        ""
        if rejected is None
        else f"At its own threshold the station would reject {rejected} of {k} good parts of this lot. "
    )
    start = f"{as_it_is}Of {planted} planted defects the station's own reference"
    if choice.correction == STATION_REFERENCE:
        kept = "" if asked else _why_kept(choice, k)
        return replace(choice, helps=None, sentence=f"{start} finds {before}{MOVED}{kept}.{end}")
    result = "calibrated" if after > before else _why_taken(choice)
    sentence = f"{start} would find {before}{MOVED}, {title} {after}: {result}.{end}"
    return replace(choice, helps=after > before, sentence=sentence)


def _why_taken(choice: Choice) -> str:
    """Why a correction that finds no more planted defects is taken."""
    area = {(one.correction, tuple(one.settings.items())): one.stands_out for one in choice.trials}
    own, mine = area.get((STATION_REFERENCE, ())), area.get((choice.correction, tuple(choice.settings.items())))
    if own is None or mine is None:
        return "it does not help"
    if mine > own:
        return "no more are found, but they stand out more clearly"
    return "no clear difference, so what serves most lots best is taken"


def _why_kept(choice: Choice, k: int) -> str:
    reason = (
        "and no correction makes them stand out more clearly"
        if choice.trials
        else f"the lot looks like the training parts, and {k} images are too few to compare corrections"
    )
    return f", {reason}: the station keeps its reference"
