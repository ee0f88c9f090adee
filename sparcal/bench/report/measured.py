"""The numbers of a run by their place in a table: averages over categories and seeds, spread, tests, diagnostics.

A number that needs an unfinished unit is missing. An undefined unit (see `sparcal.bench.plan.protocol`) is left out of
base and corrected alike: its category is averaged over the other draws, and the count of undefined units goes with the
number, so that a table can mark it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparcal.bench.datasets import DATASETS
from sparcal.bench.plan.contenders import FEATURES
from sparcal.bench.plan.experiment import MEAN_OF_DATASETS, Experiment
from sparcal.bench.plan.unit import Unit
from sparcal.bench.plan.variant import Variant
from sparcal.bench.report.paper import TablePlace
from sparcal.bench.run.row import ResultRow
from sparcal.bench.stats import Average, average_categories, average_groups, defined_mean, wilcoxon_greater
from sparcal.errors import DataError

Numbers = NDArray[np.float64]

# A variant of the paper's tables that is the difference of two: deployment-lot against training-pool calibration.
CONTRASTS = {"deployment-train": ("source=deployment", "source=train")}
STATISTICS = ("base", "corrected", "delta", "base_sd", "corrected_sd", "delta_sd", "median_delta", "n", "p", "p_holm")
DIAGNOSTICS = ("dc_energy", "subspace_energy", "dc_fraction", "rho_anom", "contrast")
NAN = float("nan")


@dataclass(frozen=True)
class MeasuredNumber:
    """One measured number and how complete it is.

    Args:
        value: NaN where it is missing or undefined.
        sd: sample standard deviation over seeds; NaN where it has none.
        missing: planned units that are not finished; None if no unit was planned for it.
        undefined: units that were left out because their draw leaves nothing to evaluate.
    """

    value: float
    sd: float = NAN
    missing: int | None = 0
    undefined: int = 0


@dataclass(frozen=True, eq=False)
class _Series:
    """One host on one category: a value per seed, NaN where the unit is undefined."""

    host: str
    dataset: str
    base: Numbers
    corrected: Numbers


class Measured:
    """The rows of a run, looked up by place."""

    def __init__(self, experiment: Experiment, units: Sequence[Unit], rows: Sequence[ResultRow]) -> None:
        self.experiment = experiment
        self.units = tuple(units)
        self._rows = {row["unit"]: row for row in rows}
        self._planned: dict[tuple[object, ...], dict[int, Unit]] = {}
        self._based: dict[tuple[object, ...], dict[int, Unit]] = {}
        for unit in units:
            words = (unit.dataset, unit.category, unit.host, unit.k)
            self._planned.setdefault((*words, unit.correction, unit.variant), {})[unit.seed] = unit
            shared = self._based.setdefault((*words, unit.setting), {})
            if unit.seed not in shared or unit.hash in self._rows:  # any finished unit of the base will do
                shared[unit.seed] = unit

    @property
    def run_units(self) -> tuple[Unit, ...]:
        """The units that have a row; all planned ones while none has."""
        return tuple(unit for unit in self.units if unit.hash in self._rows) or self.units

    def row(self, unit: Unit) -> ResultRow | None:
        """The row of a unit, if it is finished."""
        return self._rows.get(unit.hash)

    def categories(self, dataset: str) -> list[str]:
        """The planned categories of a dataset, in the dataset's order."""
        planned = list(dict.fromkeys(unit.category for unit in self.units if unit.dataset == dataset))
        known = DATASETS[dataset].categories if dataset in DATASETS else self.experiment.rendered.categories
        return sorted(planned, key=lambda name: known.index(name) if name in known else len(known))

    def number(self, place: TablePlace, *, hosts: Sequence[str] | None = None) -> MeasuredNumber:
        """The number that belongs in a place.

        Args:
            hosts: which are averaged where the place names none; by default all.
        """
        if place.metric in DIAGNOSTICS:
            return self._diagnostic(place)
        if place.variant in CONTRASTS:
            return self._contrast(place)
        units, missing = self._units(place, hosts)
        if missing or missing is None:
            return MeasuredNumber(NAN, missing=missing)
        series = self._series(place, units)
        undefined = sum(int(np.isnan(one.base).sum()) for one in series)
        value, sd = _statistic(place.statistic, series, place.dataset == MEAN_OF_DATASETS)
        return MeasuredNumber(value, sd, 0, undefined)

    def _units(
        self, place: TablePlace, hosts: Sequence[str] | None = None
    ) -> tuple[dict[tuple[str, str, str], dict[int, Unit]], int | None]:
        """The units behind a place, by (host, dataset, category), and how many of them are missing."""
        behind: dict[tuple[str, str, str], dict[int, Unit]] = {}
        for host in [place.host] if place.host else hosts or self.experiment.hosts:
            for dataset in self.experiment.pool(place.dataset):
                for category in [place.category] if place.category else self.categories(dataset):
                    units = self._planned_for(place, (dataset, category, host, place.k))
                    if units:
                        behind[host, dataset, category] = units
        if not behind:
            return behind, None
        return behind, sum(self.row(unit) is None for units in behind.values() for unit in units.values())

    def _planned_for(self, place: TablePlace, words: tuple[object, ...]) -> dict[int, Unit]:
        """By seed; for the base alone any unit that shares it will do."""
        if place.correction == "identity":
            return self._based.get((*words, Variant.parse(place.variant).setting), {})
        return self._planned.get((*words, place.correction, place.variant), {})

    def _series(self, place: TablePlace, behind: dict[tuple[str, str, str], dict[int, Unit]]) -> list[_Series]:
        seeds = sorted({seed for units in behind.values() for seed in units})
        series = []
        for (host, dataset, _), units in behind.items():
            rows = [self.row(units[seed]) if seed in units else None for seed in seeds]
            base = _column(rows, f"base_{place.metric}")
            corrected = base if place.correction == "identity" else _column(rows, f"corrected_{place.metric}")
            series.append(_Series(host, dataset, base, corrected))
        return series

    def _contrast(self, place: TablePlace) -> MeasuredNumber:
        """One variant's change minus another's, category by category and seed by seed."""
        sides = []
        for variant in CONTRASTS[place.variant]:
            side = place._replace(variant=variant)
            units, missing = self._units(side)
            if missing or missing is None:
                return MeasuredNumber(NAN, missing=missing)
            sides.append(self._series(side, units))
        changes = [
            _Series(a.host, a.dataset, b.corrected - b.base, a.corrected - a.base) for a, b in zip(*sides, strict=True)
        ]
        statistic = "delta" if place.statistic == "difference" else place.statistic
        undefined = sum(int(np.isnan(one.corrected - one.base).sum()) for one in changes)
        return MeasuredNumber(*_statistic(statistic, changes, False), 0, undefined)

    def _diagnostic(self, place: TablePlace) -> MeasuredNumber:
        """A diagnostic of bare features, its sums pooled over categories and seeds."""
        units, missing = self._units(place._replace(host=FEATURES))
        if missing or missing is None:
            return MeasuredNumber(NAN, missing=missing)
        rows = [self.row(unit) for by_seed in units.values() for unit in by_seed.values()]
        held = [row["diagnostics"] for row in rows if row is not None and row["diagnostics"]]
        undefined = len(rows) - len(held)
        return MeasuredNumber(_diagnostic(place.metric, place.statistic, held) if held else NAN, undefined=undefined)


def _column(rows: Sequence[ResultRow | None], name: str) -> Numbers:
    return np.array([NAN if row is None or row[name] is None else row[name] for row in rows], dtype=np.float64)


def _statistic(statistic: str, series: Sequence[_Series], by_dataset: bool) -> tuple[float, float]:
    """Value and spread over seeds."""
    sides: dict[str, Callable[[_Series], Numbers]] = {
        "base": lambda one: one.base,
        "corrected": lambda one: one.corrected,
        "delta": lambda one: one.corrected - one.base,
    }
    side = statistic.removesuffix("_sd")
    if side in sides:
        average = _average([(one, sides[side](one)) for one in series], by_dataset)
        return (average.sd, NAN) if statistic.endswith("_sd") else (average.value, average.sd)
    changes = np.array([defined_mean(one.corrected - one.base) for one in series])
    changes = changes[~np.isnan(changes)]
    if statistic == "n":
        return float(changes.size), NAN
    if statistic == "median_delta":
        return float(np.median(changes)) if changes.size else NAN, NAN
    if statistic == "p":
        return wilcoxon_greater(changes) if changes.size else NAN, NAN
    raise DataError(f"unknown statistic {statistic!r}; choose from {', '.join(STATISTICS)}.")


def _average(values: Sequence[tuple[_Series, Numbers]], by_dataset: bool) -> Average:
    """Over categories, then over datasets where each weighs the same, then over hosts."""
    hosts: dict[str, dict[str, list[Numbers]]] = {}
    for one, numbers in values:
        hosts.setdefault(one.host, {}).setdefault(one.dataset if by_dataset else "", []).append(numbers)
    return average_groups(
        [
            average_groups([average_categories(np.stack(rows)) for rows in datasets.values()])
            for datasets in hosts.values()
        ]
    )


def _diagnostic(metric: str, statistic: str, held: Sequence[dict[str, Any]]) -> float:
    def mean(name: str) -> float:
        return float(np.mean([numbers[name] for numbers in held]))

    def pooled(name: str) -> float:
        count = sum(numbers[f"{name}_count"] for numbers in held)
        return float(sum(numbers[f"{name}_sum"] for numbers in held) / count) if count else NAN

    if metric == "dc_fraction":
        return mean("dc_energy") / (mean("dc_energy") + mean("subspace_energy"))
    if metric in ("dc_energy", "subspace_energy"):
        return mean(metric)
    if metric == "rho_anom":
        return pooled("rho_anom") / (mean("isotropic") if statistic == "ratio_to_isotropic" else 1.0)
    base = pooled("base_anomalous") - pooled("base_normal")
    corrected = pooled("sparc_anomalous") - pooled("sparc_normal")
    values = {"base": base, "corrected": corrected, "delta": corrected - base}
    return values[statistic] if statistic in values else 100 * (corrected - base) / base
