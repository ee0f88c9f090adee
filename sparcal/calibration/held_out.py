"""Scores of good parts by a reference that has not seen them: the only evidence there is before the first bad part.

The station's own parts are scored out of fold: the reference is rebuilt without the fold. The lot's parts are left out
in turn: correction and reference are both rebuilt from the others. A part with a planted defect is scored by what was
rebuilt without that part.

PatchCore's coreset, which costs more than all the rest, is chosen by the station, once for its reference and once per
fold, on uncorrected features. For a lot the chosen rows stay and only their features change; scores then differ by 1 to
3 % from choosing anew, in either direction, and docs/explanation/speed.md says what that saves.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sparcal.calibration.kept_rows import added_rows, cells_of_grid, on_rows, rows_without
from sparcal.calibration.map_peaks import peaks, peaks_on
from sparcal.calibration.planted_parts import PlantedParts
from sparcal.calibration.thin_reference import thin_out
from sparcal.corrections import Identity
from sparcal.imaging.maps import MapRule
from sparcal.imaging.preprocess import Geometry
from sparcal.score import CalibratedDetector, judged_side, reference_side
from sparcal.threads import in_order
from sparcal.types import Correction, Detector, Features, KeepsRows, Scores, keeps_rows, rescores

OWN_LIMIT = 120
FOLDS = 5
FEWEST_LEFT = 2  # normals that a correction can be fitted on


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

    def __getitem__(self, numbers: Sequence[int]) -> PartScores:
        taken = list(numbers)
        return PartScores(self.image[taken], self.peak[taken], self.cell[taken])


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
    calibrated: CalibratedDetector,
    reference: Features,
    geometries: Sequence[Geometry],
    folds: Folds,
    *,
    limit: int | None = None,
    workers: int = 1,
) -> PartScores:
    """Out-of-fold scores of the station's own parts, as parts of the reference side.

    Args:
        calibrated: on all of the reference; gives the settings, and the rows of normals that a correction has added.
        reference: the station's uncorrected features.
        geometries: of the station's images.
        limit: of the parts scored, evenly over the folds; all of them unless given.
    """
    scored = [_few_of(members, limit, len(folds.left_out)) for members in folds.left_out]

    def fold(number: int) -> Scores:
        rebuilt = without_fold(calibrated, reference, folds, number)
        return rebuilt.score(reference_side(calibrated.correction, reference[scored[number]])[: len(scored[number])])

    parts = list(in_order(fold, range(len(scored)), workers=workers))
    numbers = [i for part in scored for i in part]
    order = torch.tensor(numbers).argsort()
    rule = calibrated.detector.map_rule
    return part_scores(_joined(parts)[order], rule, [geometries[i] for i in sorted(numbers)])


def without_fold(calibrated: CalibratedDetector, reference: Features, folds: Folds, number: int) -> Detector:
    """The detector rebuilt without the parts of one fold."""
    others = _others(len(reference), folds.left_out[number])
    detector, correction = calibrated.detector, calibrated.correction
    if not (keeps_rows(detector) and folds.rows):
        return copy.copy(detector).fit(reference_side(correction, reference[others]))
    cells, rows = cells_of_grid(reference), folds.rows[number].cpu()
    at = torch.tensor(others)[rows // cells] * cells + rows % cells  # where they lie among all images
    return on_rows(detector, correction, thin_out(reference, at), added_rows(calibrated, reference))


def left_out(
    calibrated: CalibratedDetector,
    reference: Features,
    calibration: Features,
    geometries: Sequence[Geometry],
    *,
    station_rows: Tensor | None,
    planted: PlantedParts | None = None,
    workers: int = 1,
) -> HeldOut | None:
    """The lot's normals, each judged by what the others alone give, and the defects planted on them; None if too few.

    Args:
        calibrated: from all normals; gives the settings, and the rows of normals that a correction has added.
        reference: the station's uncorrected features.
        station_rows: the rows of the station's coreset; None for a detector without one.
        geometries: of the normals.
    """
    k, detector = len(calibration), calibrated.detector
    if k - 1 < FEWEST_LEFT:
        return None
    thin = thin_out(reference, station_rows) if keeps_rows(detector) and station_rows is not None else None
    added = None if thin is None else added_rows(calibrated, reference)

    def leave_out(j: int) -> tuple[Scores, Scores | None]:
        correction = _for_fewer(calibrated.correction, k - 1).fit(calibration[_others(k, [j])], reference)
        if thin is not None and keeps_rows(detector):
            rebuilt: Detector = on_rows(detector, correction, thin, rows_without(added, j, cells_of_grid(reference)))
        else:
            rebuilt = copy.copy(detector).fit(reference_side(correction, reference))
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
        numbers: of the parts among the station's images; `planted` counts the parts in this order. One that carries
            no defect, because few were asked for, is left out.
    """
    carriers = [place for place in range(len(numbers)) if planted.on(place)]
    done: dict[int, tuple[Scores, Scores | None]] = {}
    for fold, members in enumerate(folds.left_out):
        mine = [place for place in carriers if numbers[place] in members]
        if mine:
            own = CalibratedDetector(Identity(), detector)
            rebuilt = CalibratedDetector(Identity(), without_fold(own, reference, folds, fold))
            done |= {place: _with_planted(rebuilt, reference[numbers[place]], planted, place) for place in mine}
    geometries = [planted.geometries[planted.on(place)[0]] for place in carriers]
    return _together([done[place] for place in carriers], detector.map_rule, geometries, planted)


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
    order = torch.tensor([number for part in sorted(set(planted.part)) for number in planted.on(part)]).argsort()
    scores = scores[order]
    return HeldOut(good, PartScores(scores.image, peaks_on(scores.cell, rule, planted.cells), scores.cell))


def part_scores(scores: Scores, rule: MapRule, geometries: Sequence[Geometry]) -> PartScores:
    """Scores together with the highest pixel of each map."""
    return PartScores(scores.image, peaks(scores.cell, rule, geometries), scores.cell)


def spaced(n: int, limit: int) -> list[int]:
    """At most `limit` of the numbers below n, evenly spaced."""
    return [i * n // limit for i in range(limit)] if n > limit else list(range(n))


def _for_fewer(correction: Correction, k: int) -> Correction:
    """A copy that removes no more directions than k normals differ in."""
    fewer = copy.copy(correction)
    rank = getattr(fewer, "rank", None)
    if rank is not None:
        fewer.rank = min(rank, k - 1)  # type: ignore[attr-defined]
    return fewer


def _few_of(left_out: Sequence[int], limit: int | None, folds: int) -> list[int]:
    few = len(left_out) if limit is None else max(1, limit // folds)
    return [left_out[i] for i in spaced(len(left_out), few)]


def _joined(scores: Sequence[Scores]) -> Scores:
    """All scores on the processor, where these few numbers are weighed against each other."""
    return Scores(torch.cat([one.image for one in scores]).cpu(), torch.cat([one.cell for one in scores]).cpu())


def _others(n: int, gone: Sequence[int]) -> list[int]:
    missing = set(gone)
    return [i for i in range(n) if i not in missing]
