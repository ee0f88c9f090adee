"""The greedy coreset against a slow and obvious version."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sparcal.errors import DataError, ShapeError
from sparcal.neighbours import _points, greedy_coreset
from tests.support.points import clustered, small_points

both_routes = pytest.mark.usefixtures("route")


def naive_coreset(points: Tensor, size: int, *, start: int = 0, initial: Tensor | None = None) -> list[int]:
    x = points.double().numpy()
    if initial is None:
        chosen, distance = [start], np.sqrt(((x - x[start]) ** 2).sum(1))
    else:
        chosen, distance = [], initial.double().numpy()
    while len(chosen) < size:
        chosen.append(int(distance.argmax()))
        distance = np.minimum(distance, np.sqrt(((x - x[chosen[-1]]) ** 2).sum(1)))
    return chosen


def covering_radius(points: Tensor, chosen: Tensor) -> float:
    return float(torch.cdist(points.double(), points[chosen].double()).amin(1).max())


class TestGreedyCoreset:
    @both_routes
    @pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
    def test_equals_the_naive_loop_on_random_points(self, dtype: torch.dtype) -> None:
        points = torch.randn(400, 20, generator=torch.Generator().manual_seed(0)).to(dtype)
        assert greedy_coreset(points, 150, start=7).tolist() == naive_coreset(points, 150, start=7)

    @both_routes
    def test_equals_the_naive_loop_on_clusters(self) -> None:
        points = clustered(700, 90, 3)
        assert greedy_coreset(points, 300).tolist() == naive_coreset(points, 300)

    @both_routes
    def test_equals_the_naive_loop_from_anchor_distances(self) -> None:
        points = clustered(600, 30, 4)
        initial = torch.cdist(points, points[::60]).mean(1)
        assert greedy_coreset(points, 200, initial=initial).tolist() == naive_coreset(points, 200, initial=initial)

    @both_routes
    def test_anchor_distances_need_not_be_distances(self) -> None:
        points = clustered(300, 30, 5)
        initial = torch.rand(300, generator=torch.Generator().manual_seed(0)) * 9
        assert greedy_coreset(points, 80, initial=initial).tolist() == naive_coreset(points, 80, initial=initial)

    @both_routes
    def test_equals_the_naive_loop_on_duplicated_points(self) -> None:
        points = clustered(60, 40, 6).repeat(4, 1)
        assert greedy_coreset(points, 60, start=200).tolist() == naive_coreset(points, 60, start=200)

    @both_routes
    def test_repeats_index_zero_once_everything_is_covered(self) -> None:
        points = clustered(5, 8, 7).repeat(3, 1)
        chosen = greedy_coreset(points, 8, start=12)
        assert chosen.tolist() == naive_coreset(points, 8, start=12)
        assert chosen[5:].tolist() == [0, 0, 0]

    @both_routes
    def test_points_with_a_large_offset(self) -> None:
        points = clustered(300, 40, 8) * 1e-3 + 1000
        assert greedy_coreset(points, 100).tolist() == naive_coreset(points, 100)

    @both_routes
    def test_all_points(self) -> None:
        points = clustered(50, 6, 9)
        assert sorted(greedy_coreset(points, 50).tolist()) == list(range(50))

    @settings(deadline=None, max_examples=150)
    @given(points=small_points, data=st.data())
    def test_integer_grids_full_of_ties(self, points: Tensor, data: st.DataObject) -> None:
        size = data.draw(st.integers(1, len(points)))
        start = data.draw(st.integers(0, len(points) - 1))
        values = st.lists(st.integers(0, 9).map(float), min_size=len(points), max_size=len(points))
        initial = data.draw(st.none() | values.map(torch.tensor))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_points, "TINY", data.draw(st.sampled_from([0, 2**22])))
            chosen = greedy_coreset(points, size, start=start, initial=initial)
        assert chosen.tolist() == naive_coreset(points, size, start=start, initial=initial)
        assert chosen.dtype == torch.int64

    @settings(deadline=None, max_examples=50)
    @given(seed=st.integers(0, 2**20), n=st.integers(2, 120), d=st.integers(1, 40))
    def test_the_covering_radius_is_at_most_the_gap_between_members(self, seed: int, n: int, d: int) -> None:
        points = torch.randn(n, d, generator=torch.Generator().manual_seed(seed))
        chosen = greedy_coreset(points, n // 2)
        members = points[chosen].double()
        gaps = torch.cdist(members, members).fill_diagonal_(torch.inf)
        assert covering_radius(points, chosen) <= float(gaps.min()) * (1 + 1e-6)

    def test_a_float32_loop_covers_as_well(self) -> None:
        points = clustered(3000, 64, 10)
        distance, peer = torch.full((3000,), torch.inf), [0]
        for _ in range(299):
            distance = torch.minimum(distance, torch.linalg.norm(points - points[peer[-1]], dim=1))
            peer.append(int(distance.argmax()))
        ours = covering_radius(points, greedy_coreset(points, 300))
        assert ours == pytest.approx(covering_radius(points, torch.tensor(peer)), rel=1e-5)

    @both_routes
    def test_inputs_are_left_alone(self) -> None:
        points, initial = clustered(100, 20, 11), torch.ones(100, dtype=torch.float64)
        before, anchors = points.clone(), initial.clone()
        greedy_coreset(points, 30, initial=initial)
        assert torch.equal(points, before)
        assert torch.equal(initial, anchors)

    def test_rejects_bad_inputs_in_one_sentence(self) -> None:
        points = torch.ones(5, 2)
        for size in (0, 6):
            with pytest.raises(DataError, match=rf"size between 1 and the 5 points, got {size}"):
                greedy_coreset(points, size)
        for start in (-1, 5):
            with pytest.raises(DataError, match=rf"start between 0 and 4, got {start}"):
                greedy_coreset(points, 2, start=start)
        with pytest.raises(ShapeError, match=r"initial as \(5,\), one distance per point, got \(4,\)"):
            greedy_coreset(points, 2, initial=torch.ones(4))
        for bad in (-1.0, torch.nan, torch.inf):
            with pytest.raises(DataError, match=r"initial distances that are finite and not negative"):
                greedy_coreset(points, 2, initial=torch.tensor([1.0, bad, 1, 1, 1]))
        with pytest.raises(ShapeError, match=r"points must be a floating tensor"):
            greedy_coreset(points[None], 2)
        with pytest.raises(DataError, match=r"points must be finite"):
            greedy_coreset(points * torch.nan, 2)
