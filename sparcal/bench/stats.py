"""The statistics of the paper's tables: Wilcoxon and Holm for significance, category averages, spread over seeds.

Results come as an array or DataFrame of one row per category and one column per seed. A missing unit is NaN, and every
number that needs it is NaN too: missing never counts as zero.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparcal.errors import DataError, ShapeError


def wilcoxon_greater(deltas: ArrayLike) -> float:
    """One-sided p value of the Wilcoxon signed-rank test that the changes are larger than zero.

    Zero changes are dropped before ranking (Wilcoxon's own rule); if nothing is left there is no evidence and p is 1.
    Exact up to 13 changes with ties in size and up to 50 without, as scipy chooses; a normal approximation beyond.

    Args:
        deltas: one seed-averaged change per category.
    """
    from scipy.stats import wilcoxon

    changes = np.asarray(deltas, dtype=np.float64)
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
    """
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or not np.all((p >= 0) & (p <= 1)):
        raise DataError(f"holm needs a flat list of p values in [0, 1], got {p_values}: leave untested hypotheses out.")
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return [float(value) for value in adjusted]


def seed_average(values: ArrayLike) -> NDArray[np.float64]:
    """Mean over seeds for each category: (categories, seeds) -> (categories,), what `wilcoxon_greater` tests."""
    return np.asarray(_table(values, "seed_average").mean(axis=1))


def macro(values: ArrayLike) -> NDArray[np.float64]:
    """Mean over categories for each seed, every category with equal weight: (categories, seeds) -> (seeds,)."""
    return np.asarray(_table(values, "macro").mean(axis=0))


def pooled(benchmarks: Sequence[ArrayLike]) -> NDArray[np.float64]:
    """Mean over the categories of several benchmarks for each seed; a benchmark weighs as much as it has categories.

    Args:
        benchmarks: one (categories, seeds) table each, with the same seeds in the same order.
    """
    tables = [_table(values, "pooled") for values in benchmarks]
    if not tables or len({table.shape[1] for table in tables}) > 1:
        seeds = [table.shape[1] for table in tables]
        raise ShapeError(f"pooled needs benchmarks with the same seeds, got {seeds} of them: pass paired results only.")
    return macro(np.concatenate(tables))


def mean_sd(per_seed: ArrayLike) -> tuple[float, float]:
    """Mean and sample standard deviation (n - 1) over seeds; the deviation of a single seed is NaN."""
    values = np.asarray(per_seed, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ShapeError(f"mean_sd needs one value per seed, got shape {values.shape}: average over categories first.")
    return float(values.mean()), float(values.std(ddof=1)) if values.size > 1 else float("nan")


def _table(values: ArrayLike, name: str) -> NDArray[np.float64]:
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or table.size == 0:
        raise ShapeError(f"{name} needs a (categories, seeds) table, got shape {table.shape}: pivot the results first.")
    return table
