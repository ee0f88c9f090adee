"""What every engine does with one unit: run it, keep its row or its failure, say how it went."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sparcal.bench.plan.unit import Unit
from sparcal.bench.run.evaluator import Evaluator
from sparcal.bench.run.folder import RunFolder
from sparcal.bench.run.workplace import Workplace
from sparcal.errors import SparcalError

# Called with (units finished in this run, units to run, units that failed in this run).
UnitProgress = Callable[[int, int, int], None]


@dataclass(frozen=True)
class Failed:
    """A unit that gave no row, and one sentence why."""

    unit: Unit
    reason: str


def work_off(unit: Unit, evaluator: Evaluator, workplace: Workplace) -> str:
    """Run a unit and keep its results; returns why it failed, or an empty text."""
    results = RunFolder(Path(workplace.results))
    try:
        results.finish(unit, *evaluator.run(unit))
    except Exception as error:  # one unit must not end the others; what went wrong is kept and reported
        reason = str(error) if isinstance(error, SparcalError) else f"{type(error).__name__}: {error}"
        sentence = " ".join(reason.split())
        results.fail(unit, sentence, traceback.format_exc())
        return sentence or type(error).__name__
    return ""
