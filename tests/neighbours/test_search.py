"""Exact nearest neighbours against a slow and obvious version."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sparcal import neighbours
from sparcal.errors import DataError, ShapeError
from sparcal.neighbours import Bank, _points, nearest, search
from tests.support.points import clustered, small_points

both_routes = pytest.mark.usefixtures("route")


def naive_nearest(queries: Tensor, bank: Tensor, k: int) -> tuple[Tensor, Tensor]:
    a, b = queries.double(), bank.double()
    squares = torch.stack([torch.stack([(x - y).square().sum() for y in b]) for x in a])
    squares, order = squares.sort(dim=1, stable=True)
    return squares[:, :k], order[:, :k]


class TestNearest:
    @both_routes
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
    @pytest.mark.parametrize("k", [1, 5])
    def test_equals_the_double_loop(self, dtype: torch.dtype, k: int) -> None:
        bank, queries = clustered(150, 80, 0).to(dtype), clustered(20, 80, 1).to(dtype)
        distances, indices = nearest(queries, bank, k=k)
        squares, expected = naive_nearest(queries, bank, k)
        assert torch.equal(indices, expected)
        torch.testing.assert_close(distances.double(), squares.sqrt(), rtol=1e-6, atol=0)
        assert distances.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)

    @both_routes
    def test_squared(self) -> None:
        bank, queries = clustered(50, 10, 0), clustered(5, 10, 1)
        torch.testing.assert_close(nearest(queries, bank, squared=True)[0], nearest(queries, bank)[0].square())

    @both_routes
    def test_a_query_in_the_bank_is_at_distance_zero_however_far_from_the_origin(self) -> None:
        bank = clustered(200, 100, 0) + 1e4
        distances, indices = nearest(bank[50:60], bank)
        assert torch.equal(distances, torch.zeros(10, 1))
        assert indices[:, 0].tolist() == list(range(50, 60))

    @both_routes
    def test_tiny_gaps_beside_a_large_offset_keep_their_digits(self) -> None:
        generator = torch.Generator().manual_seed(0)
        bank = 1000 + torch.randn(100, 70, generator=generator) * 1e-3
        queries = 1000 + torch.randn(8, 70, generator=generator) * 1e-3
        squares, expected = naive_nearest(queries, bank, 1)
        distances, indices = nearest(queries, bank)
        assert torch.equal(indices, expected)
        torch.testing.assert_close(distances.double(), squares.sqrt(), rtol=1e-6, atol=0)

    @both_routes
    def test_isotropic_data_falls_through_to_all_coordinates(self) -> None:
        generator = torch.Generator().manual_seed(0)
        bank, queries = torch.randn(600, 256, generator=generator), torch.randn(9, 256, generator=generator)
        squares, expected = naive_nearest(queries, bank, 3)
        distances, indices = nearest(queries, bank, k=3)
        assert torch.equal(indices, expected)
        torch.testing.assert_close(distances.double(), squares.sqrt(), rtol=1e-6, atol=0)

    @both_routes
    def test_equal_rows_give_the_lowest_index(self) -> None:
        bank = clustered(40, 66, 0).repeat(4, 1)
        _, indices = nearest(bank[:40], bank, k=3)
        assert indices.tolist() == [[i, i + 40, i + 80] for i in range(40)]

    @both_routes
    def test_all_rows_equal(self) -> None:
        distances, indices = nearest(torch.ones(3, 70), torch.ones(500, 70), k=2)
        assert torch.equal(distances, torch.zeros(3, 2))
        assert indices.tolist() == [[0, 1]] * 3

    @both_routes
    @pytest.mark.parametrize("memory", [1, 2**14, 2**18])
    def test_memory_changes_nothing_but_memory(self, memory: int) -> None:
        bank, queries = clustered(300, 70, 0), clustered(30, 70, 1)
        bank[200:] = bank[:100]
        distances, indices = nearest(queries, bank, k=4)
        again, same = nearest(queries, bank, k=4, memory=memory)
        assert torch.equal(distances, again)
        assert torch.equal(indices, same)

    @both_routes
    def test_lowered_matmul_precision_changes_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        bank, queries = clustered(300, 70, 0), clustered(30, 70, 1)
        expected = nearest(queries, bank, k=2)
        monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "medium")
        found = nearest(queries, bank, k=2)
        assert torch.equal(found[0], expected[0])
        assert torch.equal(found[1], expected[1])

    @both_routes
    def test_strided_and_differentiable_inputs(self) -> None:
        bank, queries = clustered(100, 140, 0), clustered(10, 140, 1)
        expected = nearest(queries[:, ::2].contiguous(), bank[:, ::2].contiguous())
        found = nearest(queries[:, ::2].requires_grad_(), bank[:, ::2].requires_grad_())
        assert torch.equal(found[0], expected[0])
        assert not found[0].requires_grad

    def test_no_queries(self) -> None:
        distances, indices = nearest(torch.empty(0, 4), torch.ones(3, 4), k=2)
        assert distances.shape == indices.shape == (0, 2)

    @settings(deadline=None, max_examples=150)
    @given(bank=small_points, data=st.data())
    def test_integer_grids_full_of_ties(self, bank: Tensor, data: st.DataObject) -> None:
        d = bank.shape[1]
        row = st.lists(st.integers(-3, 3).map(float), min_size=d, max_size=d)
        queries = torch.tensor(data.draw(st.lists(row, min_size=1, max_size=4)))
        k = data.draw(st.integers(1, len(bank)))
        squares, expected = naive_nearest(queries, bank, k)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_points, "TINY", data.draw(st.sampled_from([0, 2**22])))
            distances, indices = nearest(
                queries, bank, k=k, squared=True, memory=data.draw(st.sampled_from([1, 2**20]))
            )
        assert torch.equal(distances.double(), squares)
        assert torch.equal(indices, expected)

    def test_rejects_bad_inputs_in_one_sentence(self) -> None:
        rows = torch.ones(3, 4)
        with pytest.raises(ShapeError, match=r"queries and bank of one width, got 5 and 4 columns"):
            nearest(torch.ones(2, 5), rows)
        with pytest.raises(ShapeError, match=r"queries must be a floating tensor \(rows, columns\), got \(4,\)"):
            nearest(rows[0], rows)
        with pytest.raises(ShapeError, match=r"bank must be a floating tensor .* torch.int64"):
            nearest(rows, rows.long())
        with pytest.raises(DataError, match=r"at least one row, got none"):
            nearest(rows, rows[:0])
        with pytest.raises(DataError, match=r"k between 1 and the 3 rows of the bank, got 4"):
            nearest(rows, rows, k=4)
        with pytest.raises(DataError, match=r"k between 1 and the 3 rows of the bank, got 0"):
            nearest(rows, rows, k=0)
        with pytest.raises(DataError, match=r"on one device, got cpu and meta"):
            nearest(rows, torch.ones(3, 4, device="meta"))
        for bad in (torch.nan, torch.inf, -torch.inf, 1e19):
            broken = rows.clone()
            broken[1, 2] = bad
            with pytest.raises(DataError, match=r"queries must be finite and below 1e18 in size"):
                nearest(broken, rows)
            with pytest.raises(DataError, match=r"bank must be finite and below 1e18 in size"):
                nearest(rows, broken)


class TestBank:
    @both_routes
    @pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
    @pytest.mark.parametrize("d", [30, 97, 200])
    def test_many_searches_equal_the_double_loop(self, dtype: torch.dtype, d: int) -> None:
        rows = clustered(150, d, 0).to(dtype)
        bank = Bank.of(rows)
        for seed in (1, 2):
            queries = clustered(20, d, seed).to(dtype)
            squares, expected = naive_nearest(queries, rows, 3)
            distances, indices = nearest(queries, bank, k=3)
            assert torch.equal(indices, expected)
            torch.testing.assert_close(distances.double(), squares.sqrt(), rtol=1e-6, atol=1e-6)

    @both_routes
    @pytest.mark.parametrize("scale", [1.5, 100.0])
    def test_queries_far_outside_the_bank(self, scale: float) -> None:
        rows, queries = clustered(150, 120, 0), scale * clustered(20, 120, 1)
        found, expected = nearest(queries, Bank.of(rows)), nearest(queries, rows)
        assert torch.equal(found[0], expected[0])
        assert torch.equal(found[1], expected[1])

    @both_routes
    def test_rows_in_several_blocks(self) -> None:
        rows, queries = clustered(300, 120, 0), clustered(20, 120, 1)
        rows[200:] = rows[:100]
        memory = 2 * 120 * 4 * 70  # room for 70 rows
        bank = Bank.of(rows, memory=memory)
        for k in (1, 4, 100):
            found, expected = nearest(queries, bank, k=k), nearest(queries, rows, k=k)
            assert torch.equal(found[0], expected[0])
            assert torch.equal(found[1], expected[1])

    @both_routes
    def test_queries_of_another_dtype(self) -> None:
        rows, queries = clustered(150, 120, 0), clustered(20, 120, 1).double()
        found, expected = nearest(queries, Bank.of(rows)), nearest(queries, rows.double())
        assert found[0].dtype == torch.float64
        assert torch.equal(found[0], expected[0])
        assert torch.equal(found[1], expected[1])

    @pytest.mark.parametrize("noise", [0.0, 0.1, 100.0])
    def test_a_bank_like_another_finds_the_same_neighbours(self, noise: float, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_points, "TINY", 0)
        rows, queries = clustered(150, 120, 0), clustered(20, 120, 1)
        moved = rows + noise * torch.randn(rows.shape, generator=torch.Generator().manual_seed(2))
        first, alone = Bank.of(rows), Bank.of(moved)
        like = Bank.again(first, moved)
        (shared,), (own,), (before,) = (bank.boxes.values() for bank in (like, alone, first))
        assert shared.sketch.axes is before.sketch.axes
        assert (shared.members[0] == before.members[0]).all()
        assert (own.members[0] == before.members[0]).all() == (noise == 0)
        _, expected = naive_nearest(queries, moved, 2)
        assert torch.equal(nearest(queries, like, k=2)[1], expected)
        assert torch.equal(nearest(queries, like, k=2)[0], nearest(queries, alone, k=2)[0])
        shorter = Bank.again(like, moved[:100].contiguous())  # as many rows, or nothing is taken over
        assert torch.equal(nearest(queries, shorter)[1], naive_nearest(queries, moved[:100], 1)[1])

    @pytest.mark.parametrize("spread", [1.0, 0.0])  # with leading axes, and without: then boxes settle nothing
    def test_several_threads_find_what_one_finds(self, spread: float, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_points, "TINY", 0)
        monkeypatch.setattr(search, "_PART", 7)
        noise = torch.randn(220, 120, generator=torch.Generator().manual_seed(3))
        points = spread * clustered(220, 120, 0) + (1 - spread) * noise
        rows, queries = points[:150].contiguous(), points[150:].contiguous()
        found = []
        for threads in (1, 3):
            monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
            found.append(nearest(queries, Bank.of(rows), k=2))
        assert torch.equal(found[0][1], naive_nearest(queries, rows, 2)[1])
        assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))

    def test_matmul_precision_lowered_after_preparation(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_points, "TINY", 0)
        rows, queries = clustered(150, 120, 0), clustered(20, 120, 1)
        bank = Bank.of(rows)
        (boxes,) = bank.boxes.values()
        assert boxes.serve(queries, torch.float32)
        monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "medium")
        assert not boxes.serve(queries, torch.float64)
        assert torch.equal(nearest(queries, bank)[1], nearest(queries, rows)[1])

    def test_rejects_bad_rows(self) -> None:
        with pytest.raises(DataError, match=r"at least one row, got none"):
            Bank.of(torch.empty(0, 4))
        with pytest.raises(DataError, match=r"bank must be finite and below 1e18 in size"):
            Bank.of(torch.full((2, 4), torch.nan))
        with pytest.raises(DataError, match=r"k between 1 and the 3 rows of the bank, got 4"):
            nearest(torch.ones(2, 4), Bank.of(torch.ones(3, 4)), k=4)
        with pytest.raises(ShapeError, match=r"queries and bank of one width, got 5 and 4 columns"):
            nearest(torch.ones(2, 5), Bank.of(torch.ones(3, 4)))


@both_routes
@pytest.mark.parametrize("hard", [0, 40])
def test_queries_that_leading_axes_do_not_settle(hard: int) -> None:
    """Few of them are compared with every candidate, many by all coordinates."""
    generator = torch.Generator().manual_seed(0)
    rows = clustered(640, 120, 0)
    rows[:320] = 10 + 0.2 * torch.randn(320, 120, generator=generator)  # no leading axes here
    queries = clustered(60, 120, 1)
    queries[:hard] = 10 + 0.2 * torch.randn(hard, 120, generator=generator)
    squares, expected = naive_nearest(queries, rows, 2)
    distances, indices = nearest(queries, rows, k=2)
    assert torch.equal(indices, expected)
    torch.testing.assert_close(distances.double(), squares.sqrt(), rtol=1e-6, atol=1e-6)


MEASURE = """
import re, torch
from pathlib import Path
from sparcal.neighbours import Bank, greedy_coreset, nearest

def peak():
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text()).group(1))

torch.set_num_threads(1)
points = torch.randn(40000, 256, generator=torch.Generator().manual_seed(0)) * torch.arange(1, 257) ** -0.8
nearest(points[:100], points[:1000]); greedy_coreset(points[:1000], 100)
for work in (lambda: nearest(points[:3000], points, memory=32 * 2**20), lambda: greedy_coreset(points, 500)):
    Path("/proc/self/clear_refs").write_text("5")
    before = peak()
    work()
    print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="reads peak memory from Linux's /proc")
def test_memory_is_what_the_docstrings_say() -> None:
    result = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True)
    for_nearest, for_coreset = map(int, result.stdout.split())
    assert for_nearest < 1.25 * 32 * 2**20
    assert for_coreset < 1.25 * (450 * 40000 + 400 * 500 + 2**22)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'closest'; it offers Bank, greedy_coreset, nearest"):
        _ = neighbours.closest
