"""The statistics of the paper's tables: Wilcoxon and Holm for significance, category averages, spread over seeds.

Results come as an array of one row per category and one column per seed; a draw that has no number is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparcal.errors import DataError, ShapeError
from sparcal.settings import in_short


def wilcoxon_greater(deltas: ArrayLike) -> float:
    """One-sided p value of the Wilcoxon signed-rank test that the changes are larger than zero.

    Zero changes are dropped before ranking (Wilcoxon's own rule); if nothing is left there is no evidence and p is 1.
    Exact up to 13 changes with ties in size and up to 50 without, as scipy chooses; a normal approximation beyond.

    Args:
        deltas: one seed-averaged change per category.

    >>> wilcoxon_greater([0.3, 1.2, 0.8, 2.0, 0.1])  # five changes, all for the better
    0.03125
    """
    from scipy.stats import wilcoxon

    changes = _floats(deltas, "wilcoxon_greater needs a finite change for each category")
    if changes.ndim != 1 or not np.isfinite(changes).all() or changes.size == 0:
        raise DataError(
            f"wilcoxon_greater needs a finite change for each category, got shape {changes.shape} with "
            f"{int((~np.isfinite(changes)).sum())} not finite: average over seeds and finish missing units first."
        )
    changes = changes[changes != 0]
    if changes.size == 0:
        return 1.0
    return float(wilcoxon(changes, alternative="greater").pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p values of one family, in the order given.

    The i-th smallest of m is multiplied by m - i + 1, lifted to the largest before it, and cut at 1.

    >>> holm([0.04, 0.01, 0.5])
    [0.08, 0.03, 0.5]
    """
    p = _floats(p_values, "holm needs a flat list of p values in [0, 1]")
    if p.ndim != 1 or not np.all((p >= 0) & (p <= 1)):
        raise DataError(
            f"holm needs a flat list of p values in [0, 1], got {in_short(p_values)}: leave untested hypotheses out."
        )
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return [float(value) for value in adjusted]


def _floats(values: ArrayLike, expected: str) -> NDArray[np.float64]:
    """Numbers as an array, or one sentence that says what was expected."""
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biuf":
            raise TypeError
    except (TypeError, ValueError) as error:
        raise DataError(f"{expected}, got {in_short(values)}: pass numbers.") from error
    return array.astype(np.float64)


@dataclass(frozen=True, eq=False)
class Average:
    """An average over categories.

    Args:
        value: the mean over categories, each the mean of its own draws; NaN where no category has a number.
        per_seed: (seeds,), the mean over the categories that have a number in every seed; NaN where there are none.
    """

    value: float
    per_seed: NDArray[np.float64]

    @property
    def sd(self) -> float:
        """Sample standard deviation (n - 1) over seeds; NaN for a single seed."""
        return float(self.per_seed.std(ddof=1)) if self.per_seed.size > 1 else float("nan")


def average_categories(table: ArrayLike) -> Average:
    """The average of one row per category and one column per seed, every category with equal weight.

    Draws are averaged within their category first. A draw without a number, NaN, then takes nothing away from the
    weight of its category; averaged seed by seed, each seed would rest on other categories.
    """
    table = _floats(table, "average_categories needs a (categories, seeds) table")
    if table.ndim != 2 or table.size == 0:
        raise ShapeError(
            f"average_categories needs a (categories, seeds) table, got shape {table.shape}: pivot the results first."
        )
    means = np.array([defined_mean(row) for row in table])
    whole = table[~np.isnan(table).any(axis=1)]
    return Average(defined_mean(means), whole.mean(axis=0) if len(whole) else np.full(table.shape[1], np.nan))


def average_groups(groups: Sequence[Average]) -> Average:
    """The average of averages (benchmarks, or hosts), each with equal weight; groups without a number are left out."""
    if not isinstance(groups, Sequence) or not all(isinstance(group, Average) for group in groups):
        raise DataError(f"average_groups needs a list of averages, got {in_short(groups)}: see average_categories.")
    if len({group.per_seed.shape for group in groups}) != 1:
        raise ShapeError(
            f"average_groups needs at least one group with the same seeds as the others, got "
            f"{[group.per_seed.size for group in groups]} seeds: pass paired results only."
        )
    per_seed = np.stack([group.per_seed for group in groups])
    whole = per_seed[~np.isnan(per_seed).any(axis=1)]
    return Average(
        defined_mean(np.array([group.value for group in groups])),
        whole.mean(axis=0) if len(whole) else np.full(per_seed.shape[1], np.nan),
    )


def defined_mean(values: ArrayLike) -> float:
    """The mean of what is not NaN; NaN where nothing is."""
    numbers = _floats(values, "defined_mean needs numbers")
    if numbers.ndim != 1:
        raise ShapeError(f"defined_mean needs numbers in a row, got shape {numbers.shape}: average each row by itself.")
    defined = numbers[~np.isnan(numbers)]
    return float(defined.mean()) if defined.size else float("nan")
