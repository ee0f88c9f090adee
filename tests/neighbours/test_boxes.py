"""Rows in boxes: every row lies in one, and what a search in them finds is what comparing with every row finds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sparcal.neighbours._boxes import Boxes, leaf_rows
from tests.support.points import clustered


def boxed(bank: Tensor) -> Boxes:
    return Boxes.of(bank, None, 64, torch.float32)


def search(queries: Tensor, bank: Tensor, k: int, budget: int) -> tuple[Tensor, Tensor, Tensor]:
    found = torch.empty(len(queries), k, dtype=torch.float64), torch.empty(len(queries), k, dtype=torch.int64)
    settled = boxed(bank).search(queries, bank, budget, found)
    return *found, settled


def compare_with_all(queries: Tensor, bank: Tensor, k: int) -> tuple[Tensor, Tensor]:
    squares = (queries.double()[:, None] - bank.double()).square().sum(dim=-1)
    squares, order = squares.sort(dim=1, stable=True)  # equals by the lower row
    return squares[:, :k], order[:, :k]


@given(m=st.integers(1, 700), each=st.sampled_from([1, 2, 8, 32]), seed=st.integers(0, 9))
def test_every_point_counts_once(m: int, each: int, seed: int) -> None:
    points = np.random.default_rng(seed).standard_normal((m, 4)).astype(np.float32)
    rows, real = leaf_rows(points, each)
    assert rows.shape == real.shape == (len(rows), each)
    assert sorted(rows[real].tolist()) == list(range(m))
    assert rows.size <= m + (m // 4 + each) + each  # few are held twice


def test_points_of_a_box_lie_together() -> None:
    points = np.random.default_rng(0).standard_normal((4096, 3)).astype(np.float32)
    rows, _ = leaf_rows(points, 32)
    inside = points[rows]
    assert (inside.max(axis=1) - inside.min(axis=1)).mean() < 0.4 * np.ptp(points, axis=0).mean()


@settings(deadline=None, max_examples=25)
@given(
    m=st.integers(1, 300), k=st.integers(1, 40), digits=st.sampled_from([0, 8]), seed=st.integers(0, 99), d=st.sampled_from([32, 100])
)  # fmt: skip
def test_equals_comparing_with_all(m: int, k: int, digits: int, seed: int, d: int) -> None:
    """Rounded to whole numbers there are many equal distances, and rows that are there twice."""
    bank, queries = clustered(m, d, seed).round(decimals=digits), clustered(6, d, seed + 1).round(decimals=digits)
    queries[0] = bank[m // 2]
    k = min(k, m)
    squares, rows, settled = search(queries, bank, k, k + m)
    expected, order = compare_with_all(queries, bank, k)
    assert bool(settled.all())
    assert torch.equal(rows, order)
    torch.testing.assert_close(squares, expected, rtol=1e-12, atol=0)


def test_double_precision() -> None:
    bank, queries = clustered(200, 40, 0).double(), clustered(10, 40, 1).double()
    squares, rows, _ = search(queries, bank, 3, 203)
    expected, order = compare_with_all(queries, bank, 3)
    assert torch.equal(rows, order)
    torch.testing.assert_close(squares, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("budget", [2, 5])
def test_what_needs_more_than_the_budget_is_said_not_to_be_settled(budget: int) -> None:
    """Points without leading axes: no box rules anything out."""
    random = torch.Generator().manual_seed(0)
    bank, queries = (torch.randn(n, 400, generator=random) for n in (2000, 8))
    squares, rows, settled = search(queries, bank, 1, budget)
    expected, order = compare_with_all(queries, bank, 1)
    assert not settled.any()
    squares, rows, settled = search(queries, bank, 1, 2001)
    assert bool(settled.all())
    assert torch.equal(rows, order)
    torch.testing.assert_close(squares, expected, rtol=1e-12, atol=0)


def test_boxes_do_not_serve_queries_far_outside() -> None:
    bank = clustered(200, 100, 0)
    assert boxed(bank).serve(bank, torch.float32)
    assert not boxed(bank).serve(100 * bank, torch.float32)
    assert not boxed(bank).serve(bank, torch.float64)
