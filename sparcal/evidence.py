"""Scores of good parts by a reference that has not seen them: the only evidence there is before the first bad part.

The station's own parts are scored out of fold: the reference is rebuilt without the fold. The lot's parts are left out
in turn: correction and reference are both rebuilt from the others.

Bounded cost: at most OWN_LIMIT of the station's parts are scored, evenly spaced over its images. PatchCore's coreset is
not chosen again for every fold: the rows chosen once are kept, less those of the parts left out. What they covered is
then covered a little worse than by a new choice, so scores err to the high side, by about a twentieth.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sparcal.corrections import NormalsInReference
from sparcal.detectors import PatchCore
from sparcal.images import Geometry
from sparcal.maps import MapRule, input_map, native_map, outside_value
from sparcal.stream import in_order
from sparcal.types import Correction, Detector, Features, Scores

OWN_LIMIT = 120
FOLDS = 5
FOLDS_WITHOUT_REFIT = 12
FEWEST_LEFT = 2  # normals that a correction can be fitted on


@dataclass(frozen=True, eq=False)
class PartScores:
    """Scores of good parts that the reference has not seen.

    Args:
        image: (n,).
        peak: (n,), the highest pixel of each part's map.
        cell: (n, h, w).
    """

    image: Tensor
    peak: Tensor
    cell: Tensor

    def __len__(self) -> int:
        return len(self.image)


@dataclass(frozen=True, eq=False)
class Rebuilt:
    """A correction fitted on a lot's normals, and the detector fitted on the reference that it gives."""

    correction: Correction
    detector: Detector

    def score(self, features: Features) -> Scores:
        """Scores of test features."""
        return self.detector.score(self.correction.apply(features) if _on_test(self.correction) else features)


def rebuild(
    detector: Detector, correction: Correction, reference: Features, calibration: Features
) -> tuple[Rebuilt, Features]:
    """Copies of correction and detector, fitted, and the reference side they were fitted on, the station's images first."""
    fitted = copy.copy(correction).fit(calibration, reference)
    corrected = _reference_side(fitted, reference)
    return Rebuilt(fitted, copy.copy(detector).fit(corrected)), corrected


def own_scores(
    detector: Detector,
    corrected: Features,
    geometries: Sequence[Geometry],
    *,
    limit: int | None = None,
    workers: int = 1,
) -> PartScores:
    """Out-of-fold scores of the station's own parts, as parts of the reference side.

    Args:
        detector: fitted on all of `corrected`.
        geometries: of the station's images, which come first in `corrected`.
        limit: of the images scored; OWN_LIMIT unless given.
    """
    chosen = spaced(len(geometries), limit or OWN_LIMIT)
    folds = min(len(chosen), FOLDS_WITHOUT_REFIT if _keeps_rows(detector) else FOLDS)

    def fold(number: int) -> Scores:
        left_out = set(chosen[number::folds])
        kept = [i for i in range(len(corrected)) if i not in left_out]
        return _rebuilt_on(detector, corrected[kept], kept).score(corrected[sorted(left_out)])

    parts = list(in_order(fold, range(folds), workers=workers))
    order = torch.tensor([i for number in range(folds) for i in chosen[number::folds]]).argsort()
    scores = Scores(torch.cat([part.image for part in parts]), torch.cat([part.cell for part in parts]))
    return part_scores(scores[order], detector.map_rule, [geometries[i] for i in chosen])


def left_out_scores(
    rebuilt: Rebuilt, reference: Features, calibration: Features, geometries: Sequence[Geometry], *, workers: int = 1
) -> PartScores | None:
    """Scores of the lot's normals, each by what the others alone give; None where too few would be left.

    Args:
        rebuilt: from all normals; gives the settings, and the rows of a coreset.
        reference: the station's uncorrected features.
        geometries: of the normals.
    """
    n, k = len(reference), len(calibration)
    if k - 1 < FEWEST_LEFT:
        return None
    appended = isinstance(rebuilt.correction, NormalsInReference)  # then rows of the normals are in a coreset too

    def leave_out(j: int) -> Scores:
        others = [i for i in range(k) if i != j]
        correction = copy.copy(rebuilt.correction).fit(calibration[others], reference)
        stands_for = [*range(n), *(n + i for i in others)] if appended else list(range(n))
        detector = _rebuilt_on(rebuilt.detector, _reference_side(correction, reference), stands_for)
        return Rebuilt(correction, detector).score(calibration[j])

    parts = list(in_order(leave_out, range(k), workers=workers))
    scores = Scores(torch.cat([part.image for part in parts]), torch.cat([part.cell for part in parts]))
    return part_scores(scores, rebuilt.detector.map_rule, geometries)


def part_scores(scores: Scores, rule: MapRule, geometries: Sequence[Geometry]) -> PartScores:
    """Scores together with the highest pixel of each map."""
    return PartScores(scores.image, peaks(scores.cell, rule, geometries), scores.cell)


def peaks(cell: Tensor, rule: MapRule, geometries: Sequence[Geometry]) -> Tensor:
    """(n,): the highest pixel of each image's map."""
    if rule.at == "input":  # resizing to native pixels interpolates, so it reaches no higher
        return torch.cat([input_map(part, rule).flatten(1).amax(dim=1) for part in cell.split(16)])
    outside = outside_value(cell)
    maps = (native_map(x, rule, g, outside=outside).max() for x, g in zip(cell, geometries, strict=True))
    return torch.tensor([float(value) for value in maps], dtype=cell.dtype)


def spaced(n: int, limit: int) -> list[int]:
    """At most `limit` of the numbers below n, evenly spaced."""
    return [i * n // limit for i in range(limit)] if n > limit else list(range(n))


def _on_test(correction: Correction) -> bool:
    return correction.on in ("both", "test")


def _reference_side(correction: Correction, reference: Features) -> Features:
    return correction.apply_reference(reference) if correction.on in ("both", "reference") else reference


def _keeps_rows(detector: Detector) -> bool:
    return isinstance(detector, PatchCore) and detector.coreset < 1


def _rebuilt_on(fitted: Detector, reference: Features, stands_for: Sequence[int]) -> Detector:
    """A copy of `fitted` on another reference.

    Args:
        stands_for: for each image of `reference`, which image it was in the reference that `fitted` was fitted on.
    """
    if not (isinstance(fitted, PatchCore) and _keeps_rows(fitted)):
        return copy.copy(fitted).fit(reference)
    assert fitted.rows_ is not None
    _, h, w, _ = reference.levels[0].shape
    place = torch.full((max(int(fitted.rows_.max()) // (h * w), *stands_for) + 1,), -1)
    place[torch.tensor(stands_for)] = torch.arange(len(stands_for))
    image = place[fitted.rows_ // (h * w)]
    rows = (image * h * w + fitted.rows_ % (h * w))[image >= 0]
    thinned = copy.copy(fitted)
    thinned.rows_, thinned.bank_ = rows, reference.levels[0].flatten(0, 2)[rows]
    return thinned
