"""Scores of good parts by a reference that has not seen them: the only evidence there is before the first bad part.

The station's own parts are scored out of fold: the reference is rebuilt without the fold. The lot's parts are left out
in turn: correction and reference are both rebuilt from the others. A part with a planted defect is scored by what was
rebuilt without that part.

PatchCore's coreset, which costs more than all the rest, is chosen by the station, once for its reference and once per
fold, on uncorrected features. For a lot the chosen rows stay and only their features change; scores then differ by 1 to
3 % from choosing anew, in either direction, and docs/speed.md says what that saves.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sparcal.calibration.map_peaks import peaks, peaks_on
from sparcal.calibration.planted_parts import PlantedParts
from sparcal.corrections import Identity
from sparcal.imaging.maps import MapRule
from sparcal.imaging.preprocess import Geometry
from sparcal.neighbours.coreset import greedy_coreset
from sparcal.score import CalibratedDetector, judged_side, reference_side
from sparcal.threads import in_order
from sparcal.types import Correction, Detector, Features, KeepsRows, Scores, keeps_rows, rescores

OWN_LIMIT = 120
FOLDS = 5
FEWEST_LEFT = 2  # normals that a correction can be fitted on
ADDED_SHARE = 1 / 3  # of the features of normals that are added to a thinned reference
ADDED_LIMIT = 8192  # rows that normals may add to it


@dataclass(frozen=True, eq=False)
class PartScores:
    """Scores of parts that the reference has not seen.

    Args:
        image: (n,).
        peak: (n,), the highest pixel of each part's map; of a planted defect, the highest pixel on it.
        cell: (n, h, w).
    """

    image: Tensor
    peak: Tensor
    cell: Tensor

    def __len__(self) -> int:
        return len(self.image)


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Good parts, each by a reference that has not seen it, and the same parts with planted defects."""

    good: PartScores
    planted: PartScores | None


@dataclass(frozen=True, eq=False)
class Folds:
    """The station's own parts in folds.

    Args:
        left_out: the images that are scored in each fold, by number.
        rows: for each fold, the coreset of the others, as rows of their features; empty for detectors without one.
    """

    left_out: tuple[tuple[int, ...], ...]
    rows: tuple[Tensor, ...]


def calibrate_on_rows(
    detector: Detector, correction: Correction, reference: Features, calibration: Features
) -> tuple[CalibratedDetector, Features]:
    """The calibrated pair of section 3, on the rows that the station has chosen, and the reference side it stands on.

    Args:
        detector: fitted on `reference`, uncorrected; gives the settings, and the rows of a coreset.
    """
    fitted = copy.copy(correction).fit(calibration, reference)
    corrected = reference_side(fitted, reference)
    if keeps_rows(detector):
        rows = torch.cat([detector.rows, _rows_of_added(corrected, len(reference))])
        return CalibratedDetector(fitted, detector.restricted_to(corrected, rows)), corrected
    return CalibratedDetector(fitted, copy.copy(detector).fit(corrected)), corrected


def make_folds(detector: Detector, features: Features, *, limit: int | None = None, workers: int = 1) -> Folds:
    """Which parts are scored in which fold, and for a detector with a coreset the rows of what remains.

    Args:
        detector: its settings are used, its state is not.
        features: of the station's images, uncorrected.
        limit: of the images scored; OWN_LIMIT unless given.
    """
    parts = plain_folds(len(features), limit)
    if not keeps_rows(detector):
        return Folds(parts, ())
    unfitted: KeepsRows = detector

    def select(left_out: tuple[int, ...]) -> Tensor:
        return copy.copy(unfitted).fit(features[_others(len(features), left_out)]).rows

    return Folds(parts, tuple(in_order(select, parts, workers=workers)))


def plain_folds(n: int, limit: int | None = None) -> tuple[tuple[int, ...], ...]:
    """The images that are scored in each fold."""
    scored = spaced(n, limit or OWN_LIMIT)
    count = min(FOLDS, len(scored))
    return tuple(tuple(scored[number::count]) for number in range(count))


def own_scores(
    detector: Detector,
    corrected: Features,
    geometries: Sequence[Geometry],
    folds: Folds,
    *,
    limit: int | None = None,
    workers: int = 1,
) -> PartScores:
    """Out-of-fold scores of the station's own parts, as parts of the reference side.

    Args:
        detector: fitted on all of `corrected`.
        corrected: the station's images, and after them what a correction may have added.
        geometries: of the station's images.
        limit: of the parts scored, evenly over the folds; all of them unless given.
    """
    n = len(geometries)
    scored = [_few_of(left_out, limit, len(folds.left_out)) for left_out in folds.left_out]

    def fold(number: int) -> Scores:
        return without_fold(detector, corrected, folds, number, n).score(corrected[scored[number]])

    parts = list(in_order(fold, range(len(scored)), workers=workers))
    numbers = [i for part in scored for i in part]
    scores = Scores(torch.cat([part.image for part in parts]), torch.cat([part.cell for part in parts]))
    order = torch.tensor(numbers).argsort()
    return part_scores(scores[order], detector.map_rule, [geometries[i] for i in sorted(numbers)])


def without_fold(detector: Detector, corrected: Features, folds: Folds, number: int, n: int) -> Detector:
    """The detector rebuilt without the parts of one fold; n is the number of the station's own images."""
    left_out = folds.left_out[number]
    kept = corrected[_others(len(corrected), left_out)]
    if keeps_rows(detector) and folds.rows:
        cells = _cells(corrected)
        added = detector.rows_from(n, cells=cells) - len(left_out) * cells
        return detector.restricted_to(kept, torch.cat([folds.rows[number], added]))
    return copy.copy(detector).fit(kept)


def left_out(
    calibrated: CalibratedDetector,
    reference: Features,
    calibration: Features,
    geometries: Sequence[Geometry],
    *,
    planted: PlantedParts | None = None,
    workers: int = 1,
) -> HeldOut | None:
    """The lot's normals, each judged by what the others alone give, and the defects planted on them; None if too few.

    Args:
        calibrated: from all normals; gives the settings, and the rows of a coreset.
        reference: the station's uncorrected features.
        geometries: of the normals.
    """
    n, k = len(reference), len(calibration)
    if k - 1 < FEWEST_LEFT:
        return None

    def leave_out(j: int) -> tuple[Scores, Scores | None]:
        correction = copy.copy(calibrated.correction).fit(calibration[_others(k, [j])], reference)
        corrected = reference_side(correction, reference)
        detector = calibrated.detector
        if keeps_rows(detector):
            added = len(corrected) > n
            rows = detector.rows_without(n + j, cells=_cells(corrected)) if added else detector.rows
            rebuilt: Detector = detector.restricted_to(corrected, rows)
        else:
            rebuilt = copy.copy(detector).fit(corrected)
        return _with_planted(CalibratedDetector(correction, rebuilt), calibration[j], planted, j)

    done = list(in_order(leave_out, range(k), workers=workers))
    return _together(done, calibrated.detector.map_rule, geometries, planted)


def not_seen(
    detector: CalibratedDetector,
    calibration: Features,
    geometries: Sequence[Geometry],
    planted: PlantedParts | None = None,
) -> HeldOut:
    """The same for a reference that has seen none of the normals, so that none needs to be left out."""
    done = [_with_planted(detector, calibration[j], planted, j) for j in range(len(calibration))]
    return _together(done, detector.detector.map_rule, geometries, planted)


def own_parts(
    detector: Detector, reference: Features, folds: Folds, numbers: Sequence[int], planted: PlantedParts
) -> HeldOut:
    """Some of the station's own parts, each by its own reference rebuilt without the part's fold, and defects on them.

    Args:
        numbers: of the parts among the station's images; `planted` counts the parts in this order.
    """
    done: dict[int, tuple[Scores, Scores | None]] = {}
    for fold, members in enumerate(folds.left_out):
        mine = [place for place, number in enumerate(numbers) if number in members]
        if mine:
            rebuilt = CalibratedDetector(Identity(), without_fold(detector, reference, folds, fold, len(reference)))
            done |= {place: _with_planted(rebuilt, reference[numbers[place]], planted, place) for place in mine}
    geometries = [planted.geometries[planted.on(place)[0]] for place in range(len(numbers))]
    return _together([done[place] for place in range(len(numbers))], detector.map_rule, geometries, planted)


def _with_planted(
    rebuilt: CalibratedDetector, part: Features, planted: PlantedParts | None, number: int
) -> tuple[Scores, Scores | None]:
    """Scores of one part, and of that part with each of the defects planted on it."""
    plain = judged_side(rebuilt.correction, part)
    known = rebuilt.detector.score(plain)
    on_it = [] if planted is None else planted.on(number)
    if planted is None or not on_it:
        return known, None
    spoilt = judged_side(rebuilt.correction, planted.features[on_it])
    if rescores(rebuilt.detector):
        return known, rebuilt.detector.rescore(spoilt, plain, known)
    return known, rebuilt.detector.score(spoilt)


def _together(
    done: Sequence[tuple[Scores, Scores | None]],
    rule: MapRule,
    geometries: Sequence[Geometry],
    planted: PlantedParts | None,
) -> HeldOut:
    good = part_scores(_joined([known for known, _ in done]), rule, geometries)
    if planted is None:
        return HeldOut(good, None)
    scores = _joined([spoilt for _, spoilt in done if spoilt is not None])
    order = torch.tensor([number for part in range(len(done)) for number in planted.on(part)]).argsort()
    scores = scores[order]
    return HeldOut(good, PartScores(scores.image, peaks_on(scores.cell, rule, planted.cells), scores.cell))


def part_scores(scores: Scores, rule: MapRule, geometries: Sequence[Geometry]) -> PartScores:
    """Scores together with the highest pixel of each map."""
    return PartScores(scores.image, peaks(scores.cell, rule, geometries), scores.cell)


def spaced(n: int, limit: int) -> list[int]:
    """At most `limit` of the numbers below n, evenly spaced."""
    return [i * n // limit for i in range(limit)] if n > limit else list(range(n))


def _few_of(left_out: Sequence[int], limit: int | None, folds: int) -> list[int]:
    few = len(left_out) if limit is None else max(1, limit // folds)
    return [left_out[i] for i in spaced(len(left_out), few)]


def _joined(scores: Sequence[Scores]) -> Scores:
    return Scores(torch.cat([one.image for one in scores]), torch.cat([one.cell for one in scores]))


def _others(n: int, gone: Sequence[int]) -> list[int]:
    missing = set(gone)
    return [i for i in range(n) if i not in missing]


def _cells(features: Features) -> int:
    return features.levels[0].shape[1] * features.levels[0].shape[2]


def _rows_of_added(corrected: Features, n: int) -> Tensor:
    """Rows that cover the images which a correction has added after the station's n."""
    points = corrected.levels[0][n:].flatten(0, 2)
    if len(points) == 0:
        return torch.empty(0, dtype=torch.long)
    size = max(1, min(ADDED_LIMIT, round(ADDED_SHARE * len(points))))
    return greedy_coreset(points, size).sort().values + n * _cells(corrected)
