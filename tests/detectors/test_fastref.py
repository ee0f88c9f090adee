"""FastRef against Algorithm 1 with loops, weights and an explicit inverse."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sparcal.detectors.fastref import FastRef, squared_costs, transport_plan
from sparcal.errors import DataError, NotFittedError
from sparcal.score import score_lot
from sparcal.sparc import SPARC
from sparcal.types import Features


def images(n: int, *, grid: tuple[int, int, int] = (4, 5, 12), seed: int = 0) -> Features:
    random = torch.Generator().manual_seed(seed)
    mean = torch.randn(grid, generator=torch.Generator().manual_seed(99), dtype=torch.float64)
    return Features((mean + 0.3 * torch.randn(n, *grid, generator=random, dtype=torch.float64),))


def slow_coreset(points: Tensor, size: int) -> Tensor:
    chosen = [0]
    while len(chosen) < size:
        gaps = [min(float((p - points[c]).norm()) for c in chosen) for p in points]
        chosen.append(gaps.index(max(gaps)))
    return points[chosen]


def slow_plan(cost: Tensor, epsilon: float, sweeps: int) -> Tensor:
    """Sinkhorn with plain exponentials."""
    m, n = cost.shape
    kernel = [[math.exp(-float(cost[i, j]) / (epsilon * float(cost.mean()))) for j in range(n)] for i in range(m)]
    u, v = [1.0] * m, [1.0] * n
    for _ in range(sweeps):
        v = [1 / n / sum(u[i] * kernel[i][j] for i in range(m)) for j in range(n)]
        u = [1 / m / sum(v[j] * kernel[i][j] for j in range(n)) for i in range(m)]
    return torch.tensor([[u[i] * kernel[i][j] * v[j] for j in range(n)] for i in range(m)], dtype=torch.float64)


def slow_residual(f: Tensor, prototypes: Tensor, detector: FastRef) -> Tensor:
    """Algorithm 1 with the weights W of every prototype written out."""
    m, n = len(f), len(prototypes)
    gram = prototypes @ prototypes.T
    inverse = torch.linalg.inv(gram)
    w = f @ prototypes.T @ inverse
    scale = m if detector.transport == "unit-mass" else 1
    for _ in range(detector.rounds):
        cost = torch.tensor(
            [[float(((w[i] @ prototypes - prototypes[j]) ** 2).sum()) for j in range(n)] for i in range(m)],
            dtype=torch.float64,
        )
        plan = scale * slow_plan(cost, detector.epsilon, detector.iterations)
        w = (f @ prototypes.T + detector.weight * plan @ gram) @ inverse
        w = torch.stack([w[i] / (1 + detector.weight * plan[i].sum()) for i in range(m)])
    return torch.stack([(f[i] - w[i] @ prototypes).norm() for i in range(m)])


@pytest.mark.parametrize("transport", ["unit-mass", "literal"])
@pytest.mark.parametrize(("rounds", "epsilon", "weight"), [(2, 0.1, 0.3), (1, 0.5, 2.0), (3, 0.2, 0.3), (0, 0.1, 0.3)])
def test_fastref_equals_algorithm_1(transport: str, rounds: int, epsilon: float, weight: float) -> None:
    support, query = images(3), images(2, seed=1)
    detector = FastRef(coreset=0.1, rounds=rounds, epsilon=epsilon, weight=weight, transport=transport).fit(support)
    scores = detector.score(query)
    prototypes = slow_coreset(support.levels[0].reshape(-1, 12), 6)
    torch.testing.assert_close(detector.prototypes_, prototypes)
    for cell, f in zip(scores.cell, query.levels[0], strict=True):
        expected = slow_residual(f.reshape(-1, 12), prototypes, detector).reshape(4, 5)
        torch.testing.assert_close(cell, expected, atol=1e-9, rtol=1e-8)
    torch.testing.assert_close(scores.image, scores.cell.flatten(1).max(dim=1).values)


def test_the_defaults_are_the_authors() -> None:
    detector = FastRef()
    assert (detector.coreset, detector.weight, detector.rounds) == (0.05, 0.3, 2)
    assert detector.iterations < 10


def test_literal_transport_does_nothing_that_could_be_seen() -> None:
    support, query = images(4, grid=(14, 14, 48)), images(2, grid=(14, 14, 48), seed=1)
    least_squares = FastRef(coreset=0.02, weight=0.0).fit(support).score(query).cell
    literal = FastRef(coreset=0.02, transport="literal").fit(support).score(query).cell
    unit = FastRef(coreset=0.02).fit(support).score(query).cell
    assert ((literal - least_squares).abs() / least_squares).max() < 1e-5
    assert ((unit - least_squares).abs() / least_squares).median() > 1e-2


@settings(deadline=None, max_examples=40)
@given(
    m=st.integers(1, 7),
    n=st.integers(1, 7),
    epsilon=st.floats(0.05, 5.0),
    sweeps=st.integers(1, 9),
    seed=st.integers(0, 10**6),
)
def test_plans_equal_plain_sinkhorn_and_rows_carry_their_mass(
    m: int, n: int, epsilon: float, sweeps: int, seed: int
) -> None:
    cost = torch.rand(m, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    plan = transport_plan(cost, epsilon=epsilon, iterations=sweeps)
    torch.testing.assert_close(plan, slow_plan(cost, epsilon, sweeps), atol=1e-9, rtol=1e-6)
    torch.testing.assert_close(plan.sum(dim=1), torch.full((m,), 1 / m, dtype=torch.float64))


def test_many_sweeps_reach_the_column_sums_too() -> None:
    cost = torch.rand(6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    plan = transport_plan(cost, epsilon=0.3, iterations=300)
    torch.testing.assert_close(plan.sum(dim=0), torch.full((4,), 1 / 4, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_plans_stay_finite_where_exponentials_vanish(dtype: torch.dtype) -> None:
    cost = torch.rand(50, 40, generator=torch.Generator().manual_seed(0)).to(dtype) * 1e6
    plan = transport_plan(cost, epsilon=1e-4, iterations=9)
    assert torch.isfinite(plan).all()
    torch.testing.assert_close(plan.sum(dim=1), torch.full((50,), 1 / 50, dtype=dtype))
    assert torch.isfinite(transport_plan(torch.zeros(3, 2), epsilon=0.1, iterations=9)).all()


def test_costs_are_squared_distances() -> None:
    points, prototypes = images(1).levels[0].reshape(-1, 12), images(1, seed=2).levels[0].reshape(-1, 12)[:3]
    torch.testing.assert_close(squared_costs(points, prototypes), torch.cdist(points, prototypes).square())


def test_a_grid_of_another_size_and_half_precision_are_scored() -> None:
    detector = FastRef(coreset=0.1).fit(images(3).map(Tensor.half))
    scores = detector.score(images(2, grid=(6, 3, 12), seed=1).map(Tensor.half))
    assert scores.cell.shape == (2, 6, 3)
    assert scores.cell.dtype == torch.float32


def test_a_support_that_a_correction_has_made_equal_still_scores() -> None:
    support, query = images(3), images(2, seed=1)
    for share in (0.1, 1.0):
        scores = score_lot(FastRef(coreset=share), query, reference=support, calibration=support, correction=SPARC())
        assert torch.isfinite(scores.cell).all()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"coreset": 0.0}, r"FastRef.coreset must be in \(0, 1\], got 0.0: "),
        ({"weight": -0.1}, r"FastRef.weight must be a finite number of at least 0, got -0.1: 0 is plain"),
        ({"rounds": -1}, r"FastRef.rounds must be a whole number of at least 0, got -1: "),
        ({"iterations": 0}, r"FastRef.iterations must be a whole number of at least 1, got 0: "),
        ({"epsilon": 0.0}, r"FastRef.epsilon must be a finite number above 0, got 0.0: "),
        ({"transport": "half"}, r"FastRef.transport must be one of unit-mass, literal, got 'half': "),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        FastRef(**settings)


def test_no_support_and_no_fit_are_refused() -> None:
    with pytest.raises(DataError, match="FastRef needs reference features of normal images, got none"):
        FastRef().fit(None)
    with pytest.raises(NotFittedError, match=r"call FastRef\.fit first"):
        FastRef().score(images(1))
