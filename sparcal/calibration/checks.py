"""What is looked at before anybody trusts a lot: each check has a number, a verdict and one sentence.

`ok` asks for nothing, `look` for a person's eye, `stop` means that the lot must not judge parts as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any, Literal

from torch import Tensor

from sparcal.calibration.part_statistics import (
    LeftOut,
    alignment,
    displacement,
    part_distances,
    prominence,
    spread_and_offset,
)
from sparcal.calibration.selection import STATION_REFERENCE, Choice
from sparcal.calibration.thresholds import Threshold
from sparcal.types import Features

Verdict = Literal["ok", "look", "stop"]

# Limits were set on rendered parts, docs/station.md has the measurement: other lights and a camera off by a cell keep
# nine tenths of the alignment, a part upside down or turned keeps less than half.
ALIGNED, ASTRAY = 0.85, 0.65
NEAR = 0.15  # of the squared distance between two training parts, which lies at 0.8 and more for different parts
ODD, ODD_AMONG_MANY = 1.9, 2.4  # times as prominent as the station's own parts; the latter where conditions are mixed
SPREAD, OFFSET = 1.5, 3.0  # times what training parts show; times what sampling alone would give
ALONE = 1.5  # times the median: one normal decides how high the threshold is
FEW = 4


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Args:
        number: what was measured; the sentence says in which terms.
        images: the calibration images that the check names.
    """

    name: str
    number: float
    verdict: Verdict
    sentence: str
    images: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain values; `from_json` gives the same check back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Check:
        """The check that `to_json` wrote."""
        return cls(**{**data, "images": tuple(data["images"])})


def worst(checks: Sequence[Check]) -> Verdict:
    """The gravest verdict."""
    verdicts = {check.verdict for check in checks}
    return "stop" if "stop" in verdicts else "look" if "look" in verdicts else "ok"


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
    among = part_distances(calibration, calibration, reference)
    pairs = [(i, j) for i in range(len(names)) for j in range(i) if hashes[i] == hashes[j] or float(among[i, j]) < NEAR]
    to_training = part_distances(calibration, reference, reference).amin(dim=1)
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


def check_odd(views: Sequence[tuple[Tensor, Tensor]], names: Sequence[str], *, spread: float) -> Check:
    """Whether one of the parts is odd: left out, a few of its cells stand out more than on any good part.

    Args:
        views: pairs of maps, left-out (k, h, w) and of the station's own parts (n, h, w); their prominences are averaged.
        spread: of the parts among each other, as `check_shift` has it; where several lights or fixtures are mixed, the
            only part under one of them stands out as well, so more is asked for before a part is called defective.
    """
    if not views:
        return Check("odd one out", 0.0, "look", f"{len(names)} images are too few to leave one out: show at least 3.")
    ratios = sum(prominence(lot) / prominence(own).mean().clamp_min(1e-6) for lot, own in views) / len(views)
    assert isinstance(ratios, Tensor)
    mixed = spread > SPREAD
    limit = ODD_AMONG_MANY if mixed else ODD
    number = float(ratios.max())
    measure = f"{number:.1f} times as much as the station's own parts do (limit {limit})"
    odd = _above(limit, ratios, names)
    if odd:
        verb = "looks" if len(odd) == 1 else "look"
        sentence = (
            f"{', '.join(odd)} {verb} defective, the worst stands out {measure}: look at it, and calibrate without it."
        )
        return Check("odd one out", number, "stop", sentence, odd)
    conspicuous = _above(ODD, ratios, names)
    if conspicuous:
        verb = "is" if len(conspicuous) == 1 else "are"
        sentence = (
            f"{', '.join(conspicuous)} {verb} conspicuous, the worst stands out {measure}: look for a defect, or show "
            "another part under the same light or fixture."
        )
        return Check("odd one out", number, "look", sentence, conspicuous)
    hides = "; the parts differ much among each other, which can hide a faint defect" if mixed else ""
    sentence = f"No part is odd; left out, the most conspicuous stands out {measure}{hides}."
    return Check("odd one out", number, "ok", sentence)


def check_shift(calibration: Features, reference: Features) -> Check:
    """Whether there is a shift: disagreement among the normals, and the offset of their mean, against training parts."""
    spread, offset = spread_and_offset(calibration, reference)
    by_chance = 1 / len(calibration) + 1 / len(reference)
    facts = (
        f"the parts differ among each other {spread:.1f} times as much as training parts do, and their mean lies "
        f"{offset / by_chance:.1f} times as far off as chance would put it"
    )
    if spread > SPREAD or offset > OFFSET * by_chance:
        return Check("shift", spread, "ok", f"There is a shift: {facts}.")
    return Check("shift", spread, "ok", f"There is no shift to remove: {facts}.")


def check_energy(left_out: LeftOut | None, correction: str) -> Check:
    """How much of the deviation of unseen parts the correction removes."""
    if left_out is None or correction in (STATION_REFERENCE, "normals"):
        return Check("energy removed", 0.0, "ok", "Nothing is removed from the features.")
    lot, own = float(left_out.removed.mean()), left_out.own_removed
    h, w = left_out.removed.shape
    top = int(left_out.removed.flatten().argmax())
    facts = (
        f"{lot:.0%} of what tells a left-out part from the others is removed, most in row {top // w + 1} of {h}, column "
        f"{top % w + 1} of {w}, and {own:.0%} of what tells training parts apart"
    )
    if lot < own:
        return Check("energy removed", lot, "look", f"The parts do not agree in how they deviate: {facts}.")
    return Check("energy removed", lot, "ok", f"{facts[0].upper()}{facts[1:]}.")


def check_expected(choice: Choice) -> Check:
    """What calibration may be expected to do, before it is done."""
    return replace(check_help(choice, choice.correction), name="expected benefit")


def check_help(choice: Choice, correction: str) -> Check:
    """Whether calibration helps here."""
    number = next((one.lift for one in reversed(choice.trials) if one.correction == correction), 0.0)
    kept = choice.correction == STATION_REFERENCE and not choice.trials[0].shifted
    return Check("helps", number, "ok" if choice.helps or kept else "look", choice.sentence)


def check_threshold(threshold: Threshold, scores: Sequence[float], names: Sequence[str]) -> Check:
    """Whether the samples support the false-reject rate that was asked for, and if not, whether one part is to blame.

    Args:
        scores: of the lot's normals, left out in turn; empty where none could be.
    """
    number = threshold.supported if threshold.supported is not None else 0.0
    sentence, to_blame = threshold.sentence, None
    if threshold.basis == "lot with margin":
        highest, typical = max(scores), median(scores)
        if highest > ALONE * typical > 0:
            to_blame = names[list(scores).index(highest)]
            sentence = (
                f"{sentence} {to_blame} alone puts it there, {highest / typical:.1f} times the median of the normals: "
                "if it is the only one under its light or fixture, show another, and the threshold falls."
            )
    return Check("threshold", number, "ok" if threshold.free else "look", sentence, (to_blame,) if to_blame else ())


def _above(limit: float, ratios: Tensor, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name, value in zip(names, ratios.tolist(), strict=True) if value > limit)
