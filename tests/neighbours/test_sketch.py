"""Sketches prove distances: they never make points look farther apart than their limit says."""

from __future__ import annotations

import pytest
import torch

from sparcal.errors import DataError
from sparcal.neighbours._sketch import Sketch
from tests.support.points import clustered


class TestSketch:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_never_makes_points_look_farther_apart_than_its_limit_says(self, dtype: torch.dtype) -> None:
        points = clustered(200, 300, 0) + 100
        sketch = Sketch.of(points, width=16, chunk=64, dtype=dtype)
        coordinates = sketch(points, 64).double()
        true, seen = torch.cdist(points.double(), points.double()) ** 2, torch.cdist(coordinates, coordinates) ** 2
        assert (seen <= true * sketch.growth + sketch.pad).all()
        assert (seen * sketch.scale**2).sum() > 0.5 * true.sum(), "leading axes must hold most of the spread"

    @pytest.mark.parametrize("width", [8, 24, 300])  # fewer axes than the first stage has room for, more, and all
    def test_stages_never_make_points_look_farther_apart_than_their_limit_says(self, width: int) -> None:
        points = clustered(200, 300, 0) + 100
        points[100:] = points[:100] * (1 + 1e-6)
        sketch = Sketch.of(points, width=width, chunk=64, dtype=torch.float64)
        coarse, fine = (stage.double() for stage in sketch.staged(points, 64, 12))
        true = torch.cdist(points.double(), points.double()) ** 2
        leading = torch.cat((coarse[:, :12], fine), dim=1)
        for stage in (coarse[:, :13], leading):
            seen = torch.cdist(stage, stage) ** 2
            assert (seen <= true * sketch.growth + sketch.staged_pad).all()
        torch.testing.assert_close(coarse[:, 13], coarse[:, :13].square().sum(1))
        torch.testing.assert_close(leading.norm(dim=1), (points.double() - sketch.centre).norm(dim=1) / sketch.scale)

    def test_axes_are_orthonormal_by_falling_variance(self) -> None:
        points = clustered(500, 60, 1)
        sketch = Sketch.of(points, width=8, chunk=100, dtype=torch.float64)
        assert sketch.axes is not None
        torch.testing.assert_close(sketch.axes.T @ sketch.axes, torch.eye(8).double())
        variance = sketch(points, 100).var(0)
        assert (variance.diff() <= 1e-3 * variance[0]).all()

    def test_lengths_need_all_digits(self) -> None:
        sketch = Sketch.of(clustered(50, 60, 1), width=8, chunk=50, dtype=torch.float32)
        with pytest.raises(DataError, match=r"staged needs float64 axes, got others: a length by Pythagoras"):
            sketch.staged(clustered(50, 60, 1), 50, 4)
