"""What happens between a lot's good parts and a calibrated lot: screening, choice, thresholds, self-test, checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from sparcal.calibration import checks as look
from sparcal.calibration.check import Check
from sparcal.calibration.choice import Choice
from sparcal.calibration.defaults import AUTO, FALSE_REJECT
from sparcal.calibration.held_out import HeldOut, not_seen, own_scores
from sparcal.calibration.inputs import CalibrationInputs
from sparcal.calibration.kept_rows import calibrate_on_rows
from sparcal.calibration.planted_parts import PlantedParts
from sparcal.calibration.screening import UNCHECKED, Screening, ShownParts, leave_out, screen, try_candidate
from sparcal.calibration.selection import CandidateCorrection, asked_for, candidates, choose, described
from sparcal.calibration.self_test import SelfTest, count_found, self_test
from sparcal.calibration.threshold_effect import rejected_share
from sparcal.calibration.thresholds import Threshold, find_threshold
from sparcal.corrections import CORRECTIONS, STATION_REFERENCE, Identity
from sparcal.progress import Progress
from sparcal.score import CalibratedDetector
from sparcal.types import Correction

OWN_PARTS = 30  # of the station's, scored under the correction that is taken


@dataclass(frozen=True, eq=False)
class Taken:
    """The correction that a lot gets, fitted on the whole station, and how unseen good parts fare under it.

    Args:
        own: image scores and highest pixels of the station's own parts, out of fold.
        lot: of the lot's, left out in turn; None where too few would be left.
    """

    name: str
    calibrated: CalibratedDetector
    own: tuple[Tensor, Tensor]
    lot: HeldOut | None


@dataclass(frozen=True, eq=False)
class CalibratedLot:
    """What a calibration arrives at.

    Args:
        lot_base: image scores of the normals by the station's own reference.
        thresholds: for image scores and for maps.
        planted: the defects that the self-test has counted.
        maps: what is kept per cell: `removed` (h, w) and `left_out` (k, h, w).
    """

    taken: Taken
    choice: Choice
    lot_base: Tensor
    thresholds: tuple[Threshold, Threshold]
    self_test: SelfTest | None
    planted: PlantedParts
    checks: tuple[Check, ...]
    maps: dict[str, Tensor]


def calibrate(
    inputs: CalibrationInputs,
    parts: ShownParts,
    *,
    correction: str | Correction,
    settings: Mapping[str, Any] | None = None,
    false_reject: float,
    seed: int,
    progress: Progress,
) -> CalibratedLot:
    """Choose, fit, rebuild, set thresholds, test and check, from the normals of a lot.

    Args:
        correction: a name, "auto" for the one under which planted defects stand out best, or an unfitted one.
        settings: of a correction that was asked for by name.
        seed: of the planted defects, for the record.
        progress: called with steps done and steps in all.
    """
    name = correction if isinstance(correction, str) else type(correction).__name__
    screening = screen(inputs, parts, compare=name == AUTO)
    parts = screening.parts
    progress(1, 5)
    choice = _choose(screening) if name == AUTO else asked_for(name, settings)
    progress(2, 5)
    calibrated = CalibratedDetector(Identity(), inputs.detector)
    base = not_seen(calibrated, parts.features, parts.geometries, parts.planted)
    progress(3, 5)
    if choice.correction != STATION_REFERENCE:
        chosen = correction if not isinstance(correction, str) else CORRECTIONS[choice.correction](**choice.settings)
        calibrated = calibrate_on_rows(inputs.detector, chosen, inputs.reference, parts.features)
    taken = _judge_good_parts(inputs, parts, choice.correction, calibrated, base)
    progress(4, 5)
    facts = CORRECTIONS.get(choice.correction)  # None for one that somebody brought along
    alone = screening.alone if facts is None or facts.learns_each else ()
    scores, thresholds = _thresholds(taken, alone, false_reject)
    before, tested = _test(inputs, parts, base, taken, thresholds, false_reject, seed)
    choice = _describe(choice, inputs, base, before, tested, asked=correction != AUTO)
    checks = (
        *screening.checks,
        look.check_energy(screening.statistics, choice.correction),
        look.check_help(choice),
        look.check_threshold(thresholds[0], scores, parts.names, alone=alone),
        look.check_self_test(tested),
    )
    progress(5, 5)
    return CalibratedLot(
        taken, choice, base.good.image, thresholds, tested, parts.planted, checks, _maps(screening, taken.lot)
    )


def preview(inputs: CalibrationInputs, parts: ShownParts, false_reject: float) -> tuple[Check, ...]:
    """The checks that need no calibration, and what one may be expected to do, judged on a few of the station's images."""
    screening = screen(inputs, parts)
    parts, choice = screening.parts, _choose(screening)
    few, k = screening.few, len(parts.images)
    base = not_seen(CalibratedDetector(Identity(), few.detector), parts.features, parts.geometries, parts.planted)
    chosen = CandidateCorrection(choice.correction, choice.settings)
    tried = base if choice.correction == STATION_REFERENCE else try_candidate(few, parts, chosen, parts.planted)
    before, after = (
        None
        if held is None
        else count_found(parts.planted, held, find_threshold([], held.good.image.tolist(), false_reject).value)
        for held in (base, tried)
    )
    planted = sum(one.plain for one in parts.planted.defects)
    return (*screening.checks, look.check_expected(described(choice, planted=planted, before=before, after=after, k=k)))


def _choose(screening: Screening) -> Choice:
    """The correction to fit on the whole station."""
    parts = screening.parts
    if screening.held_out is None:
        name = UNCHECKED if screening.shifted else STATION_REFERENCE
        return Choice(name, {}, None, "", ())
    tried: list[tuple[CandidateCorrection, HeldOut]] = []
    for candidate in candidates(len(parts.images)):
        known = screening.held_out if candidate == CandidateCorrection(UNCHECKED) else None
        held_out = known or try_candidate(screening.few, parts, candidate, parts.planted)
        if held_out is not None:
            tried.append((candidate, held_out))
    taken, trials = choose(tried, parts.planted.part, screening.company)
    return Choice(taken.name, dict(taken.settings), None, "", trials)


def _judge_good_parts(
    inputs: CalibrationInputs, parts: ShownParts, name: str, calibrated: CalibratedDetector, base: HeldOut
) -> Taken:
    """How good parts fare under what was fitted: the lot's, each left out, and the station's own, out of fold."""
    if name == STATION_REFERENCE:
        return Taken(name, calibrated, inputs.own, base)
    lot = leave_out(inputs, parts, calibrated, parts.planted)
    own = own_scores(
        calibrated, inputs.reference, inputs.geometries, inputs.folds, limit=OWN_PARTS, workers=inputs.workers
    )
    return Taken(name, calibrated, (own.image, own.peak), lot)


def _thresholds(
    taken: Taken, alone: Sequence[bool], false_reject: float
) -> tuple[list[float], tuple[Threshold, Threshold]]:
    """The image scores of the lot's parts, and the thresholds for image scores and for maps."""
    good, (own, own_peak) = None if taken.lot is None else taken.lot.good, taken.own
    scores, peaks = ([], []) if good is None else (good.image.tolist(), good.peak.tolist())
    image = find_threshold(own.numpy(), scores, false_reject, alone=alone)
    return scores, (image, find_threshold(own_peak.numpy(), peaks, false_reject, alone=alone))


def _test(
    inputs: CalibrationInputs,
    parts: ShownParts,
    base: HeldOut,
    taken: Taken,
    thresholds: tuple[Threshold, Threshold],
    false_reject: float,
    seed: int,
) -> tuple[int | None, SelfTest | None]:
    """How many planted defects are found before, and what is found after."""
    if taken.lot is None:
        return None, None
    needed = find_threshold(inputs.own[0].numpy(), base.good.image.tolist(), false_reject)
    before = count_found(parts.planted, base, needed.value)
    limits = thresholds[0].value, thresholds[1].value
    tested = self_test(parts.planted, taken.lot, thresholds=limits, floor=false_reject, seed=seed, before=before)
    return before, tested


def _maps(screening: Screening, lot: HeldOut | None) -> dict[str, Tensor]:
    removed = {} if screening.statistics is None else {"removed": screening.statistics.removed}
    return removed if lot is None else {**removed, "left_out": lot.good.cell}


def _describe(
    choice: Choice,
    inputs: CalibrationInputs,
    base: HeldOut,
    before: int | None,
    tested: SelfTest | None,
    *,
    asked: bool,
) -> Choice:
    planted, after = (0, None) if tested is None else (tested.planted, tested.found)
    own = find_threshold(inputs.own[0].numpy(), [], FALSE_REJECT)  # as `fit` has set it
    rejected, k = rejected_share(base.good.image.tolist(), own.value)
    return described(choice, planted=planted, before=before, after=after, k=k, rejected=rejected, asked=asked)
