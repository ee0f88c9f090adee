"""What a calibration of a model arrived at, for programs and, as text, for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

from sparcal.calibration.calibrate import CalibratedLot
from sparcal.calibration.check import Check, Verdict, worst
from sparcal.calibration.checks import check_help, check_self_test, check_threshold
from sparcal.calibration.choice import Trial
from sparcal.calibration.selection import described
from sparcal.calibration.self_test import SelfTest, self_test
from sparcal.integrations.anomalib.model_thresholds import ModelThresholds, floor_of


@dataclass(frozen=True)
class LotReport:
    """The correction a model got for a lot, its thresholds, and what is known about them.

    Args:
        correction: its name; of an object that was handed in, the name of its class.
        settings: in which it differs from the entry of that name.
        sentence: why it was taken.
        trials: how planted defects stood out under each candidate; empty where one was asked for.
        self_test: planted defects found and missed; None where too few parts could be left out.
        checks: what was looked at; `verdict` is the gravest.
    """

    correction: str
    settings: Mapping[str, Any]
    sentence: str
    trials: tuple[Trial, ...]
    thresholds: ModelThresholds
    self_test: SelfTest | None
    checks: tuple[Check, ...]

    @property
    def verdict(self) -> Verdict:
        """`stop` where the model must not judge the lot as it is, `look` where a person should look, else `ok`."""
        return worst(self.checks)

    def to_json(self) -> dict[str, Any]:
        """Plain values, for an audit trail."""
        tested = None if self.self_test is None else self.self_test.to_json()
        return {**asdict(self), "verdict": self.verdict, "self_test": tested}

    def __str__(self) -> str:
        """In plain words, a line for each thing that was looked at."""
        lines = [f"Correction: {self.correction}. {self.sentence}"]
        lines += [f"{check.verdict}: {check.sentence}" for check in self.checks if check.sentence != self.sentence]
        return "\n".join(lines)


def report_of(outcome: CalibratedLot) -> LotReport:
    """The report of a calibration whose thresholds rest on training images and on the lot's, each left out."""
    taken, choice = outcome.taken, outcome.choice
    image, peak = taken.own
    if taken.lot is not None:
        image, peak = torch.cat([image, taken.lot.good.image]), torch.cat([peak, taken.lot.good.peak])
    thresholds = ModelThresholds(*outcome.thresholds, floor_of(image), floor_of(peak))
    return LotReport(
        choice.correction,
        choice.settings,
        choice.sentence,
        choice.trials,
        thresholds,
        outcome.self_test,
        outcome.checks,
    )


def judged_by(thresholds: ModelThresholds, outcome: CalibratedLot) -> LotReport:
    """The report of the same calibration with thresholds from further good parts of the lot."""
    image, lot, first = thresholds.image, outcome.taken.lot, outcome.self_test
    tested = None
    if lot is not None and first is not None:
        limits = image.value, thresholds.pixel.value
        tested = self_test(
            outcome.planted,
            lot,
            thresholds=limits,
            floor=image.false_reject or 0.0,
            seed=first.seed,
            before=first.before,
        )
    choice = outcome.choice
    if tested is not None:
        choice = described(
            choice, planted=tested.planted, before=tested.before, after=tested.found, k=len(outcome.lot_base)
        )
    again = {
        "benefit": check_help(choice),
        "threshold": check_threshold(image, (), ()),
        "self-test": check_self_test(tested),
    }
    checks = tuple(again.get(check.name, check) for check in outcome.checks)
    return LotReport(choice.correction, choice.settings, choice.sentence, choice.trials, thresholds, tested, checks)
