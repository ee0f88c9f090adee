"""Scores of good parts by a reference that has not seen them: the only evidence there is before the first bad part.

The station's own parts are scored out of fold: the reference is rebuilt without the fold. The lot's parts are left out
in turn: correction and reference are both rebuilt from the others.

Bounded cost: at most OWN_LIMIT of the station's parts are scored, evenly spaced over its images. PatchCore's coreset,
which costs more than all the rest, is chosen once per fold and for the station, on uncorrected features, and for a lot
once on corrected ones; in the evidence for a lot the rows chosen stay and only their features change. Scores then differ
by 1 to 3 % from choosing anew each time, in either direction.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sparcal.detectors import PatchCore
from sparcal.imaging.maps import MapRule, input_map, native_map, outside_value
from sparcal.imaging.preprocess import Geometry
from sparcal.threads import in_order
from sparcal.types import Correction, Detector, Features, Scores

OWN_LIMIT = 120
FOLDS = 5
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
class Folds:
    """The station's own parts in folds.

    Args:
        left_out: the images that are scored in each fold, by number.
        rows: for each fold, the coreset of the others, as rows of their features; empty for detectors without one.
    """

    left_out: tuple[tuple[int, ...], ...]
    rows: tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class CalibratedDetector:
    """A correction fitted on a lot's normals, and the detector fitted on the reference that it gives."""

    correction: Correction
    detector: Detector

    def score(self, features: Features) -> Scores:
        """Scores of test features."""
        return self.detector.score(self.correction.apply(features) if _on_test(self.correction) else features)


def rebuild(
    detector: Detector, correction: Correction, reference: Features, calibration: Features
) -> tuple[CalibratedDetector, Features]:
    """Copies of correction and detector, fitted, and the reference side they were fitted on, the station's images first."""
    fitted = copy.copy(correction).fit(calibration, reference)
    corrected = _reference_side(fitted, reference)
    return CalibratedDetector(fitted, copy.copy(detector).fit(corrected)), corrected


def make_folds(detector: Detector, features: Features, *, limit: int | None = None, workers: int = 1) -> Folds:
    """Which parts are scored in which fold, and for PatchCore the coreset of what remains.

    Args:
        detector: its settings are used, its state is not.
        features: of the station's images, uncorrected.
        limit: of the images scored; OWN_LIMIT unless given.
    """
    parts = plain_folds(len(features), limit)
    if not keeps_rows(detector):
        return Folds(parts, ())

    def select(left_out: tuple[int, ...]) -> Tensor:
        fitted = copy.copy(detector).fit(features[_others(len(features), left_out)])
        assert isinstance(fitted, PatchCore)
        assert fitted.rows_ is not None
        return fitted.rows_

    return Folds(parts, tuple(in_order(select, parts, workers=workers)))


def plain_folds(n: int, limit: int | None = None) -> tuple[tuple[int, ...], ...]:
    """The images that are scored in each fold."""
    chosen = spaced(n, limit or OWN_LIMIT)
    count = min(FOLDS, len(chosen))
    return tuple(tuple(chosen[number::count]) for number in range(count))


def own_scores(
    detector: Detector, corrected: Features, geometries: Sequence[Geometry], folds: Folds, *, workers: int = 1
) -> PartScores:
    """Out-of-fold scores of the station's own parts, as parts of the reference side.

    Args:
        detector: fitted on all of `corrected`.
        corrected: the station's images, and after them what a correction may have added.
        geometries: of the station's images.
    """
    n = len(geometries)

    def fold(number: int) -> Scores:
        left_out = folds.left_out[number]
        kept = corrected[_others(len(corrected), left_out)]
        if folds.rows:
            added = _added_rows(detector, kept, n, n - len(left_out))
            fitted = _on_rows(detector, kept, torch.cat([folds.rows[number], added]))
        else:
            fitted = copy.copy(detector).fit(kept)
        return fitted.score(corrected[list(left_out)])

    parts = list(in_order(fold, range(len(folds.left_out)), workers=workers))
    scored = [i for left_out in folds.left_out for i in left_out]
    scores = Scores(torch.cat([part.image for part in parts]), torch.cat([part.cell for part in parts]))
    order = torch.tensor(scored).argsort()
    return part_scores(scores[order], detector.map_rule, [geometries[i] for i in sorted(scored)])


def left_out_scores(
    rebuilt: CalibratedDetector,
    reference: Features,
    calibration: Features,
    geometries: Sequence[Geometry],
    *,
    workers: int = 1,
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

    def leave_out(j: int) -> Scores:
        others = [i for i in range(k) if i != j]
        correction = copy.copy(rebuilt.correction).fit(calibration[others], reference)
        corrected = _reference_side(correction, reference)
        detector = rebuilt.detector
        if keeps_rows(detector):
            fitted = _on_rows(detector, corrected, _rows_without(detector, corrected, n, n + j))
        else:
            fitted = copy.copy(detector).fit(corrected)
        return CalibratedDetector(correction, fitted).score(calibration[j])

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


def keeps_rows(detector: Detector) -> bool:
    """Whether the detector thins its reference to rows that can be kept."""
    return isinstance(detector, PatchCore) and detector.coreset < 1


def _others(n: int, left_out: Sequence[int]) -> list[int]:
    gone = set(left_out)
    return [i for i in range(n) if i not in gone]


def _on_rows(detector: Detector, reference: Features, rows: Tensor) -> Detector:
    """The detector with its bank taken from these rows of another reference."""
    assert isinstance(detector, PatchCore)
    thinned = copy.copy(detector)
    thinned.rows_, thinned.bank_ = rows, reference.levels[0].flatten(0, 2)[rows]
    return thinned


def _added_rows(detector: Detector, reference: Features, first: int, moved_to: int) -> Tensor:
    """The detector's rows of images from `first` on, where these begin at `moved_to` in `reference`."""
    assert isinstance(detector, PatchCore)
    assert detector.rows_ is not None
    cells = reference.levels[0].shape[1] * reference.levels[0].shape[2]
    return detector.rows_[detector.rows_ >= first * cells] - (first - moved_to) * cells


def _rows_without(detector: Detector, reference: Features, n: int, image: int) -> Tensor:
    """The detector's rows less those of one image that was added after the n of the station; later ones move up."""
    assert isinstance(detector, PatchCore)
    assert detector.rows_ is not None
    cells = reference.levels[0].shape[1] * reference.levels[0].shape[2]
    rows = detector.rows_
    if len(reference) == n:  # nothing was added
        return rows
    return torch.cat([rows[rows < image * cells], rows[rows >= (image + 1) * cells] - cells])
