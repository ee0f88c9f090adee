from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparcal.bench.stats import average_categories, average_groups, holm, wilcoxon_greater
from sparcal.errors import DataError, ShapeError


def slow_wilcoxon(deltas: list[float]) -> float:
    """Share of all sign patterns whose positive rank sum is at least the observed one."""
    sizes = [abs(d) for d in deltas if d != 0]
    ranks = [sum(s < size for s in sizes) + (sum(s == size for s in sizes) + 1) / 2 for size in sizes]
    observed = sum(r for r, d in zip(ranks, [d for d in deltas if d != 0], strict=True) if d > 0)
    sums = [sum(itertools.compress(ranks, signs)) for signs in itertools.product([0, 1], repeat=len(ranks))]
    return sum(s >= observed - 1e-9 for s in sums) / len(sums)


def slow_holm(p_values: list[float]) -> list[float]:
    """A hypothesis is rejected at level a if all with smaller p are, and p * (hypotheses left) <= a."""
    return [min(1.0, max(q * sum(other >= q for other in p_values) for q in p_values if q <= p)) for p in p_values]


@settings(deadline=None)  # the first call imports scipy.stats
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=8))
def test_wilcoxon_equals_all_sign_patterns_with_ties_and_zeros(deltas: list[int]) -> None:
    assert wilcoxon_greater(deltas) == pytest.approx(slow_wilcoxon(deltas), abs=1e-12)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_wilcoxon_of_twelve_categories_is_exact(seed: int) -> None:
    deltas = np.random.default_rng(seed).normal(0.4, 1, size=12)
    p = wilcoxon_greater(deltas)
    assert p * 4096 == pytest.approx(round(p * 4096), abs=1e-6)
    assert p == pytest.approx(slow_wilcoxon(deltas.tolist()), abs=1e-12)


def test_wilcoxon_smallest_p_of_twelve_and_no_evidence() -> None:
    assert wilcoxon_greater(np.arange(1, 13)) == pytest.approx(1 / 4096)
    assert wilcoxon_greater(-np.arange(1, 13)) == 1.0
    assert wilcoxon_greater([0.0, 0.0, 0.0]) == 1.0  # detectors whose image score no correction touches


@pytest.mark.parametrize("deltas", [[1.0, math.nan], [1.0, math.inf], [], [[1.0, 2.0]]])
def test_wilcoxon_rejects(deltas: list[float]) -> None:
    with pytest.raises(DataError, match="wilcoxon_greater needs a finite change for each category, got shape"):
        wilcoxon_greater(deltas)


@given(st.lists(st.sampled_from([0.0, 0.001, 0.01, 0.02, 0.04, 0.3, 1.0]), min_size=1, max_size=12))
def test_holm_equals_its_definition(p_values: list[float]) -> None:
    assert holm(p_values) == pytest.approx(slow_holm(p_values), abs=1e-15)


def test_holm_of_an_empty_family_is_empty() -> None:
    assert holm([]) == []


@pytest.mark.parametrize("p_values", [[0.5, 1.5], [-0.1], [math.nan], [[0.1, 0.2]]])
def test_holm_rejects(p_values: list[float]) -> None:
    with pytest.raises(DataError, match=r"holm needs a flat list of p values in \[0, 1\], got .*: leave untested"):
        holm(p_values)


# ------------------------------------------------------------------------------------- the paper's own Holm columns
#
# Raw p is printed with three decimals or as "<.001", too coarse to start from: 5 x .001 gives .005, the paper has .006.
# But the exact test of twelve untied changes can only give certain multiples of 1/4096, and few of those print as each
# value: .001 is 5/4096, .032 is 131/4096, .039 is 158/4096, .002 is 7/4096 or 10/4096, "<.001" is 1, 2 or 3/4096.
# The smallest candidates give every printed Holm p. Rounding leaves open: which .002 it is (both give the same column)
# and whether up to two of the nine "<.001" of the primary table are 2/4096 (the column would not show it).

PRIMARY = {  # "Primary shift-prone significance tests": 14 hypotheses, printed raw p -> printed Holm p
    "image": ["<.001 .003"] * 5 + [".001 .006"] * 2,  # the .001: PatchCore, WinCLIP
    "aupro": ["<.001 .003"] * 4 + [".001 .006", ".039 .064", ".032 .064"],  # AnomalyDINO, WinCLIP, MuSc
}
CALIBRATION_SOURCE = {  # "Calibration-source control": 12 hypotheses; the .001 is AnomalyDINO, the .002 PatchCore
    "image": ["<.001 .003"] * 5 + [".001 .003"],
    "aupro": ["<.001 .003"] * 5 + [".002 .003"],
}


def attainable() -> list[float]:
    """Every p value the exact test can give for twelve untied changes."""
    sums = [sum(itertools.compress(range(1, 13), signs)) for signs in itertools.product([0, 1], repeat=12)]
    return sorted({sum(s >= observed for s in sums) / 4096 for observed in set(sums)})


def matching(printed: str) -> list[float]:
    """The attainable p values that print as `printed`."""
    return [p for p in attainable() if ("<.001" if p < 0.001 else f"{p:.3f}".lstrip("0")) == printed]


def printed(p_values: list[float]) -> list[str]:
    return [f"{p:.3f}".lstrip("0") for p in p_values]


def columns(table: dict[str, list[str]]) -> tuple[list[str], list[str]]:
    raw, adjusted = zip(*(row.split() for rows in table.values() for row in rows), strict=True)
    return list(raw), list(adjusted)


@pytest.mark.parametrize("table", [PRIMARY, CALIBRATION_SOURCE], ids=["primary", "calibration source"])
def test_holm_gives_the_papers_column(table: dict[str, list[str]]) -> None:
    raw, adjusted = columns(table)
    assert printed(holm([matching(p)[0] for p in raw])) == adjusted


def test_what_rounding_of_raw_p_leaves_open() -> None:
    counts = {p: [round(4096 * x) for x in matching(p)] for p in ["<.001", ".001", ".002", ".032", ".039"]}
    assert counts == {"<.001": [1, 2, 3], ".001": [5], ".002": [7, 10], ".032": [131], ".039": [158]}
    raw, adjusted = columns(CALIBRATION_SOURCE)
    assert printed(holm([matching(p)[-1 if p == ".002" else 0] for p in raw])) == adjusted
    raw, adjusted = columns(PRIMARY)
    p_values = [matching(p)[0] for p in raw]
    for twos, same in [(1, True), (2, True), (3, False)]:
        assert (printed(holm([2 / 4096] * twos + p_values[twos:])) == adjusted) is same


# ------------------------------------------------------------------------------------------------ averages

NAN = math.nan


def test_a_whole_table_averages_the_same_in_either_order() -> None:
    table = np.array([[1.0, 3.0], [2.0, 4.0], [6.0, 8.0]])
    average = average_categories(table)
    assert average.value == pytest.approx(table.mean())
    assert average.per_seed.tolist() == [3.0, 5.0]
    assert average.sd == pytest.approx(math.sqrt(2.0))


def test_a_hole_neither_drops_its_category_nor_enters_the_spread() -> None:
    average = average_categories(np.array([[1.0, NAN], [3.0, 5.0], [NAN, NAN]]))
    assert average.value == pytest.approx((1.0 + 4.0) / 2)
    assert average.per_seed.tolist() == [3.0, 5.0]
    nothing = average_categories(np.array([[NAN, NAN]]))
    assert math.isnan(nothing.value)
    assert math.isnan(nothing.sd)


def test_groups_weigh_the_same_whatever_their_size() -> None:
    groups = [average_categories(np.array(table)) for table in ([[1.0, 2.0]] * 8, [[5.0, 8.0]])]
    average = average_groups(groups)
    assert average.value == pytest.approx((1.5 + 6.5) / 2)
    assert average.per_seed.tolist() == [3.0, 5.0]
    empty = average_categories(np.array([[NAN, NAN]]))
    assert average_groups([*groups, empty]).value == pytest.approx(average.value), "a group without numbers is left out"


def test_categories_of_a_pool_weigh_as_the_paper_does() -> None:
    # Mean changes of MVTec AD 2 (8 categories) and AeBAD-S (4) in the variability table, pooled in the primary table.
    for ad2, aebad, expected in [(14.8, 2.2, 10.62), (21.7, 1.0, 14.78), (33.1, 8.2, 24.81), (2.9, 1.2, 2.36)]:
        value = average_categories(np.concatenate([np.full((8, 1), ad2), np.full((4, 1), aebad)])).value
        assert value == pytest.approx(expected, abs=0.05)  # the inputs are rounded to 0.1


def test_the_deviation_of_one_seed_is_undefined() -> None:
    average = average_categories(np.array([[3.0]]))
    assert average.value == 3.0
    assert math.isnan(average.sd)


def test_averages_reject_wrong_shapes() -> None:
    with pytest.raises(ShapeError, match=r"needs a \(categories, seeds\) table, got shape \(2,\): pivot"):
        average_categories(np.array([1.0, 2.0]))
    with pytest.raises(ShapeError, match=r"average_groups needs at least one group with the same seeds as the others"):
        average_groups([average_categories(np.ones((8, 5))), average_categories(np.ones((4, 3)))])
    with pytest.raises(ShapeError, match=r"average_groups needs at least one group"):
        average_groups([])
