"""What happens between a lot's good parts and a calibrated lot: evidence, choice, thresholds, checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from sparcal.calibration import checks as look
from sparcal.calibration.checks import Check
from sparcal.calibration.held_out import (
    CalibratedDetector,
    Folds,
    PartScores,
    left_out_scores,
    make_folds,
    own_scores,
    part_scores,
    rebuild,
    spaced,
)
from sparcal.calibration.part_statistics import LeftOut, left_out_residuals
from sparcal.calibration.selection import CANDIDATES, STATION_REFERENCE, Choice, Trial, choose, judge, trial
from sparcal.calibration.thresholds import Threshold, find_threshold
from sparcal.corrections import CORRECTIONS, Identity
from sparcal.imaging.encode import EncodedImage
from sparcal.imaging.preprocess import Geometry
from sparcal.types import Detector, Features

AUTO = "auto"
TRIAL_IMAGES = 32  # of the station's, for comparing candidates; the one taken is judged again on all
TRIAL_PARTS = 24


@dataclass(frozen=True, eq=False)
class CalibrationInputs:
    """What a calibration starts from.

    Args:
        detector: fitted on `reference`, uncorrected.
        geometries: of the training images.
        hashes: of the training images.
        own: out-of-fold image scores and highest pixels of the station's own parts by its own reference.
        folds: in which those were scored.
    """

    detector: Detector
    reference: Features
    geometries: Sequence[Geometry]
    hashes: Sequence[str]
    own: tuple[Tensor, Tensor]
    folds: Folds
    workers: int = 1

    def few(self) -> CalibrationInputs:
        """The same with at most TRIAL_IMAGES images, for trials."""
        if len(self.reference) <= TRIAL_IMAGES:
            return self
        chosen = spaced(len(self.reference), TRIAL_IMAGES)
        reference = self.reference[chosen]
        return replace(
            self,
            reference=reference,
            geometries=[self.geometries[i] for i in chosen],
            hashes=[self.hashes[i] for i in chosen],
            folds=make_folds(self.detector, reference, limit=TRIAL_PARTS, workers=self.workers),
        )


@dataclass(frozen=True, eq=False)
class Candidate:
    """A correction fitted on the lot, and how unseen good parts fare under it.

    Args:
        own: image scores and highest pixels of the station's own parts, out of fold.
        lot: of the lot's, left out in turn; None where too few would be left.
        own_cell: (n, h, w), None for the station's own reference.
    """

    name: str
    rebuilt: CalibratedDetector
    own: tuple[Tensor, Tensor]
    lot: PartScores | None
    own_cell: Tensor | None = None

    def trial(self) -> Trial | None:
        """The lot's parts against the station's own."""
        return None if self.lot is None else trial(self.name, self.own[0], self.lot.image)


@dataclass(frozen=True, eq=False)
class Screening:
    """A first look at the normals: SPARC on a few of the station's images, and what leaving each of them out shows."""

    calibration: Features
    places: Sequence[Geometry]
    few: CalibrationInputs
    candidate: Candidate
    left_out: LeftOut | None
    checks: tuple[Check, ...]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a calibration arrives at.

    Args:
        lot_base: image scores of the normals by the station's own reference.
        thresholds: for image scores and for maps.
        maps: what is kept per cell: `removed` (h, w) and `left_out` (k, h, w).
    """

    taken: Candidate
    choice: Choice
    lot_base: Tensor
    thresholds: tuple[Threshold, Threshold]
    checks: tuple[Check, ...]
    maps: dict[str, Tensor]


def calibrate(
    grounds: CalibrationInputs,
    normals: Sequence[EncodedImage],
    *,
    correction: str,
    false_reject: float,
    progress: Callable[[int, int], None],
) -> Outcome:
    """Fit, rebuild, set thresholds and check, from the encoded normals of a lot.

    Args:
        correction: a name, or "auto" for what the evidence favours.
        progress: called with steps done and steps in all.
    """
    screening = screen(grounds, normals)
    calibration, places = screening.calibration, screening.places
    progress(1, 5)
    base = _base(grounds, calibration, places)
    progress(2, 5)
    choice = _first_choice(correction, screening, base)
    progress(3, 5)
    taken = (
        base if choice.correction == STATION_REFERENCE else _candidate(choice.correction, grounds, calibration, places)
    )
    progress(4, 5)
    taken, choice = _second_look(correction, base, taken, choice)
    lot_scores = taken.lot
    image, peak = ([], []) if lot_scores is None else (lot_scores.image.tolist(), lot_scores.peak.tolist())
    thresholds = (
        find_threshold(taken.own[0].numpy(), image, false_reject),
        find_threshold(taken.own[1].numpy(), peak, false_reject),
    )
    assert base.lot is not None
    found = (
        *screening.checks,
        look.check_energy(screening.left_out, taken.name),
        look.check_help(choice, taken.name),
        look.check_threshold(thresholds[0], image, [str(seen.path) for seen in normals]),
    )
    maps = {} if screening.left_out is None else {"removed": screening.left_out.removed}
    if lot_scores is not None:
        maps["left_out"] = lot_scores.cell
    progress(5, 5)
    return Outcome(taken, choice, base.lot.image, thresholds, found, maps)


def screen(grounds: CalibrationInputs, normals: Sequence[EncodedImage]) -> Screening:
    """Look at the normals themselves, before anything is rebuilt on the whole station."""
    calibration = Features.cat([seen.features for seen in normals])
    places = [seen.geometry for seen in normals]
    names, hashes = [str(seen.path) for seen in normals], [seen.sha256 for seen in normals]
    few = grounds.few()
    candidate = _candidate(CANDIDATES[0], few, calibration, places)
    left_out, views = None, []
    if candidate.lot is not None and candidate.own_cell is not None:
        left_out = left_out_residuals(calibration, few.reference)
        views = [(candidate.lot.cell, candidate.own_cell), (left_out.residual, left_out.own_residual)]
    shift = look.check_shift(calibration, grounds.reference)
    found = (
        look.check_number(len(names)),
        look.check_duplicates(calibration, grounds.reference, names, hashes, grounds.hashes),
        look.check_alignment(calibration, grounds.reference, names),
        look.check_odd(views, names, spread=shift.number),
        shift,
    )
    return Screening(calibration, places, few, candidate, left_out, found)


def preview(grounds: CalibrationInputs, normals: Sequence[EncodedImage]) -> tuple[Check, ...]:
    """The checks that need no calibration, and what one may be expected to do, judged on a few of the station's images."""
    screening = screen(grounds, normals)
    standing = _base(grounds, screening.calibration, screening.places).trial()
    assert standing is not None
    first = screening.candidate.trial()
    choice = choose(standing, [] if first is None else [first], len(normals))
    return (*screening.checks, look.check_expected(choice))


def _base(grounds: CalibrationInputs, calibration: Features, places: Sequence[Geometry]) -> Candidate:
    """The station's own reference: it has not seen the normals, so none needs leaving out."""
    own = CalibratedDetector(Identity(), grounds.detector)
    scores = part_scores(own.score(calibration), grounds.detector.map_rule, places)
    return Candidate(STATION_REFERENCE, own, grounds.own, scores)


def _candidate(name: str, grounds: CalibrationInputs, calibration: Features, places: Sequence[Geometry]) -> Candidate:
    rebuilt, corrected = rebuild(grounds.detector, CORRECTIONS[name](), grounds.reference, calibration)
    lot = left_out_scores(rebuilt, grounds.reference, calibration, places, workers=grounds.workers)
    own = own_scores(rebuilt.detector, corrected, grounds.geometries, grounds.folds, workers=grounds.workers)
    return Candidate(name, rebuilt, (own.image, own.peak), lot, own.cell)


def _first_choice(asked: str, screening: Screening, base: Candidate) -> Choice:
    """What to fit on the whole station."""
    standing = base.trial()
    assert standing is not None
    if asked != AUTO:
        return Choice(asked, None, f"{asked} was asked for.", (standing,))
    calibration, places = screening.calibration, screening.places
    first = screening.candidate.trial()
    if first is None or not standing.shifted:
        return choose(standing, [], len(calibration))
    others = [_candidate(name, screening.few, calibration, places).trial() for name in CANDIDATES[1:]]
    return choose(standing, [one for one in (first, *others) if one is not None], len(calibration))


def _second_look(asked: str, base: Candidate, taken: Candidate, choice: Choice) -> tuple[Candidate, Choice]:
    """Judge what was fitted on the whole station; without being asked for, it stays only if it helps."""
    standing, tried = base.trial(), taken.trial()
    assert standing is not None
    if taken.name == STATION_REFERENCE:
        if asked == STATION_REFERENCE:
            told = replace(choose(standing, [], len(standing.lifts)), correction=STATION_REFERENCE)
            sentence = told.sentence if not standing.shifted else "The station's own reference was asked for."
            return base, replace(told, helps=False, sentence=sentence)
        return base, choice
    if tried is None:
        return taken, replace(choice, helps=None)
    judged = judge(standing, tried, asked=asked != AUTO)
    judged = replace(judged, trials=(*choice.trials, tried))
    return (base, judged) if judged.correction == STATION_REFERENCE else (taken, judged)
