"""What is looked at before anybody trusts a lot: each check has a number, a verdict and one sentence.

`ok` asks for nothing, `look` for a person's eye, `stop` means that the lot must not judge parts as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import compress
from statistics import median

import torch
from torch import Tensor

from sparcal.calibration.check import Check
from sparcal.calibration.choice import Choice
from sparcal.calibration.outline import Outline
from sparcal.calibration.part_statistics import (
    LeftOut,
    alignment,
    displacement,
    loneliness,
    oddness,
    part_distances,
    spread_and_offset,
    typical_distance,
)
from sparcal.calibration.self_test import SelfTest
from sparcal.calibration.standing_apart import in_company
from sparcal.calibration.thresholds import Threshold
from sparcal.corrections import CORRECTIONS, STATION_REFERENCE
from sparcal.types import Features

# Limits were set on rendered parts, docs/reference/station.md has the measurement: other lights and a camera off by a cell keep
# nine tenths of the alignment, a part upside down or turned keeps less than half.
ALIGNED, ASTRAY = 0.85, 0.65
NEAR = 0.15  # of the squared distance between two training parts, which lies at 0.8 and more for different parts
# Standard deviations above the other parts, tuned on photographs of bottles and on rendered plates; docs/explanation/planted-defects.md.
ODD, CONSPICUOUS = 5.0, 3.5
ALONE = 3.3  # of the part's dullest cells; beyond it a light or fixture explains more than a defect would
SPREAD, OFFSET = 1.5, 3.0  # times what training parts show; times what sampling alone would give
LIFTS = 1.5  # times the median: one normal decides how high the threshold is
ENOUGH = 0.8  # share of planted defects below which a person should look
FEW = 4


def check_number(k: int) -> Check:
    """Whether there are enough images to check anything."""
    if k < FEW:
        return Check("number", k, "look", f"{k} calibration images leave little to check: show up to 8.")
    return Check("number", k, "ok", f"{k} calibration images.")


def check_alignment(calibration: Features, reference: Features, names: Sequence[str]) -> Check:
    """Whether the parts lie where training parts lie."""
    typical = max(float(alignment(reference, reference).median()), 1e-6)
    each = alignment(calibration, reference) / typical
    number = float(each.median())
    astray = tuple(name for name, value in zip(names, each.tolist(), strict=True) if value < ASTRAY)
    share = f"{number:.0%} of the alignment with the training mean that training parts have"
    down, right = displacement(calibration, reference)
    moves = [f"{abs(n)} cells {word[n > 0]}" for n, word in ((down, ("up", "down")), (right, ("left", "right"))) if n]
    hint = f"; they lie about {' and '.join(moves)} of the training parts" if moves else ""
    if astray:
        sentence = f"These parts do not lie like the training parts: {', '.join(astray)} (all: {share}{hint})."
        return Check("alignment", number, "stop", sentence, astray)
    if number < ALIGNED:
        return Check("alignment", number, "look", f"The parts have only {share}{hint}: compare fixture and camera.")
    return Check("alignment", number, "ok", f"The parts have {share}{hint}.")


def check_duplicates(
    calibration: Features, reference: Features, names: Sequence[str], hashes: Sequence[str], known: Sequence[str]
) -> Check:
    """Whether an image is there twice, or is a training image.

    Args:
        hashes: of the calibration images.
        known: hashes of the training images.
    """
    typical = typical_distance(reference)
    among = part_distances(calibration, calibration, typical)
    pairs = [(i, j) for i in range(len(names)) for j in range(i) if hashes[i] == hashes[j] or float(among[i, j]) < NEAR]
    to_training = part_distances(calibration, reference, typical).amin(dim=1)
    trained = [i for i in range(len(names)) if hashes[i] in known or float(to_training[i]) < NEAR]
    named = tuple(dict.fromkeys(names[i] for pair in (*pairs, *((i,) for i in trained)) for i in pair))
    parts = [f"{names[i]} and {names[j]} show the same part" for i, j in pairs]
    parts += [f"{names[i]} is a training image" for i in trained]
    number = float(len(pairs) + len(trained))
    if parts:
        return Check("duplicates", number, "stop", f"{'; '.join(parts)}: give different parts of the lot.", named)
    return Check(
        "duplicates", number, "ok", "All calibration images show different parts, none of them a training image."
    )


def check_odd(maps: Tensor | None, own_spread: float, names: Sequence[str]) -> Check:
    """Whether one of the parts is odd: left out in turn, it stands above the others by level or by prominence.

    Args:
        maps: (k, h, w), cell scores of the parts, each left out; None where too few would be left.
        own_spread: standard deviation of the log scores of the station's own parts.
    """
    if maps is None:
        return Check("odd one out", 0.0, "look", f"{len(names)} images are too few to leave one out: show at least 3.")
    level, prominence = oddness(maps, own_spread)
    each = torch.maximum(level, prominence)
    each = torch.where(torch.tensor(stands_alone(maps, own_spread)), 0.0, each)  # `check_alone` speaks of these
    number = float(each.max())
    measure = f"{number:.1f} times as far from the others as good parts usually lie (limit {ODD})"
    odd = names_above(ODD, each, names)
    if odd:
        verb, them = ("looks", "it") if len(odd) == 1 else ("look", "them")
        sentence = f"{', '.join(odd)} {verb} defective, {measure}: look at {them}, and calibrate without {them}."
        return Check("odd one out", number, "stop", sentence, odd)
    conspicuous = names_above(CONSPICUOUS, each, names)
    if conspicuous:
        verb = "is" if len(conspicuous) == 1 else "are"
        sentence = (
            f"{', '.join(conspicuous)} {verb} conspicuous, {measure}: look for a defect, or show another part under the "
            "same light or fixture."
        )
        return Check("odd one out", number, "look", sentence, conspicuous)
    return Check("odd one out", number, "ok", f"No part is odd; the most conspicuous one lies {measure}.")


def stands_alone(maps: Tensor, own_spread: float) -> list[bool]:
    """Which parts are the only ones under their light or in their fixture.

    Args:
        maps, own_spread: as for `check_odd`.
    """
    return [bool(value > ALONE) for value in loneliness(maps, own_spread)]


def check_alone(maps: Tensor | None, own_spread: float, names: Sequence[str]) -> Check:
    """Whether a part is the only one under its light or in its fixture.

    Args:
        maps, own_spread: as for `check_odd`.
    """
    if maps is None or len(maps) < FEW:
        return Check("alone", 0.0, "ok", f"{len(names)} images are too few to tell which stand alone.")
    number = float(loneliness(maps, own_spread).max())
    alone = tuple(name for name, one in zip(names, stands_alone(maps, own_spread), strict=True) if one)
    if not alone:
        return Check("alone", number, "ok", "Every part has another one like it among the parts shown.")
    verb = "is the only one of its kind" if len(alone) == 1 else "are each the only one of their kind"
    # How many kinds were seen once tells how many parts are of a kind not seen yet (Good and Turing).
    sentence = (
        f"{', '.join(alone)} {verb}: all of it looks different from the others, not just one spot. If it is good, show "
        f"another part under the same light or in the same fixture. Going by this, about {len(alone)} in {len(names)} of "
        "the parts to come are of a kind that nobody has shown, and may be rejected."
    )
    if not in_company([name in alone for name in names], len(names)).all():
        sentence += " Defects planted on such a part are not counted: it would stand out without them."
    return Check("alone", number, "look", sentence, alone)


def check_outline(outline: Outline) -> Check:
    """Where planted defects could lie."""
    return Check("outline", float(outline.cells.mean()), "ok", outline.sentence)


def check_shift(calibration: Features, reference: Features) -> tuple[Check, bool]:
    """Whether there is a shift: disagreement among the normals, and the offset of their mean, against training parts."""
    spread, offset = spread_and_offset(calibration, reference)
    by_chance = 1 / len(calibration) + 1 / len(reference)
    facts = (
        f"the parts differ among each other {spread:.1f} times as much as training parts do, and their average lies "
        f"{offset / by_chance:.1f} times as far from that of the training parts as chance would put it"
    )
    shifted = spread > SPREAD or offset > OFFSET * by_chance
    start = "The lot looks different from the training parts" if shifted else "The lot looks like the training parts"
    return Check("shift", spread, "ok", f"{start}: {facts}."), shifted


def check_energy(left_out: LeftOut | None, correction: str) -> Check:
    """How much of the deviation of unseen parts the correction removes."""
    named = CORRECTIONS.get(correction)  # None for one that somebody brought along
    if left_out is None or (named is not None and named.removes is None):
        return Check("removed", 0.0, "ok", "Nothing is removed from what the camera sees.")
    lot, own = float(left_out.removed.mean()), left_out.own_removed
    h, w = left_out.removed.shape
    top = int(left_out.removed.flatten().argmax())
    facts = (
        f"of the differences between parts of the lot {lot:.0%} is evened out, most in row {top // w + 1} of {h} and column "
        f"{top % w + 1} of {w} of the heat map's cells, of those between training parts {own:.0%}"
    )
    if lot < own:
        return Check("removed", lot, "look", f"The parts do not agree in how they differ from each other: {facts}.")
    return Check("removed", lot, "ok", f"{facts[0].upper()}{facts[1:]}.")


def check_expected(choice: Choice) -> Check:
    """What calibration may be expected to do, before it is done."""
    return replace(check_help(choice), name="expected benefit")


def check_help(choice: Choice) -> Check:
    """Whether calibration helps here, judged by planted defects."""
    taken = [
        one.stands_out
        for one in choice.trials
        if (one.correction, one.settings) == (choice.correction, choice.settings)
    ]
    kept = choice.correction == STATION_REFERENCE
    chosen = bool(
        choice.trials
    )  # by `auto`, which takes nothing that is clearly worse than the station's own reference
    fine = choice.helps or kept or (choice.helps is not None and chosen)
    return Check("benefit", taken[0] if taken else 0.0, "ok" if fine else "look", choice.sentence)


def check_self_test(tested: SelfTest | None) -> Check:
    """How many planted defects the lot's thresholds find."""
    if tested is None:
        return Check("self-test", 0.0, "look", "Too few parts to leave one out: what the lot would find is not known.")
    share = tested.found / tested.planted
    return Check("self-test", share, "ok" if share >= ENOUGH else "look", tested.sentence)


def check_threshold(
    threshold: Threshold, scores: Sequence[float], names: Sequence[str], *, alone: Sequence[bool] = ()
) -> Check:
    """Whether the samples support the false-reject rate that was asked for, and if not, whether one part is to blame.

    Args:
        scores: of the lot's normals, left out in turn; empty where none could be.
        alone: which of them stand alone; `check_alone` speaks of these.
    """
    if any(alone):
        in_company = [not one for one in alone]
        scores, names = list(compress(scores, in_company)), list(compress(names, in_company))
    number = threshold.supported if threshold.supported is not None else 0.0
    sentence, to_blame = threshold.sentence, None
    if threshold.basis == "lot with margin" and len(scores) > FEW:
        highest, typical = max(scores), median(scores)
        if highest > LIFTS * typical > 0:
            to_blame = names[list(scores).index(highest)]
            sentence = (
                f"{sentence} {to_blame} alone puts it there, {highest / typical:.1f} times the median of the normals: "
                "if it is the only one under its light or fixture, show another, and the threshold falls."
            )
    return Check("threshold", number, "ok" if threshold.free else "look", sentence, (to_blame,) if to_blame else ())


def names_above(limit: float, ratios: Tensor, names: Sequence[str]) -> tuple[str, ...]:
    """The names of what lies above a limit."""
    return tuple(name for name, value in zip(names, ratios.tolist(), strict=True) if value > limit)
