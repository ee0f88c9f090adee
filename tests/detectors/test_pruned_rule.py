"""The nearest row of a bank, with rows left out by proof, against all distances."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sparcal.detectors import AnomalyDINO, pruned_rule
from sparcal.detectors.pruned_rule import ROWS_TOGETHER, PrunedRule, near_rows_together, nearest_squares
from sparcal.types import Features


def mixture(random: torch.Generator, rows: int, d: int, spread: float) -> torch.Tensor:
    """Unit rows around a few centres, along axes of falling weight."""
    weight = torch.arange(1, d + 1) ** -0.7
    centres = torch.randn(5, d, generator=random) * weight
    near = spread * torch.randn(rows, d, generator=random) * weight
    return torch.nn.functional.normalize(centres[torch.randint(5, (rows,), generator=random)] + near, dim=1)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    rows=st.integers(1, 700),
    d=st.sampled_from([2, 16, 62, 63, 100]),
    spread=st.sampled_from([0.0, 0.05, 0.3]),
    most=st.sampled_from([0, 3, 256]),
)
def test_finds_what_all_distances_find(seed, rows, d, spread, most):
    random = torch.Generator().manual_seed(seed)
    bank = mixture(random, rows, d, spread)
    queries = torch.cat((mixture(random, 30, d, spread), bank[:3], -bank[:2]))  # members and opposites among them
    tensors = PrunedRule(0.1).tensors(bank)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pruned_rule, "MOST_ROWS", most)
        got = nearest_squares(queries - tensors["bank_centre"], tensors)
    want = (queries.double()[:, None] - bank.double()).square().sum(dim=-1).amin(dim=1)
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-6)


def test_most_rows_are_left_out(monkeypatch):
    random = torch.Generator().manual_seed(0)
    bank, queries = mixture(random, 4000, 100, 0.3), mixture(random, 50, 100, 0.3)
    compared = []
    monkeypatch.setattr(
        pruned_rule, "_square_gaps", lambda a, b: compared.append(len(b)) or (a - b).square().sum(dim=1)
    )
    tensors = PrunedRule(0.1).tensors(bank)
    nearest_squares(queries - tensors["bank_centre"], tensors)
    assert sum(compared) < 0.05 * 50 * 4000


def test_every_row_is_in_one_block():
    points = torch.randn(1000, 3, generator=torch.Generator().manual_seed(0))
    order = near_rows_together(points)
    assert order.sort().values.tolist() == list(range(1000))
    spans = [
        points[part].amax(dim=0) - points[part].amin(dim=0) for part in order[: 15 * ROWS_TOGETHER].split(ROWS_TOGETHER)
    ]
    assert torch.stack(spans).mean() < 0.6 * (points.amax(dim=0) - points.amin(dim=0)).mean()


def test_scores_as_the_detector_does():
    random = torch.Generator().manual_seed(0)
    train, test = (mixture(random, n * 16, 24, 0.3).reshape(n, 4, 4, 24) for n in (20, 3))
    detector = AnomalyDINO(top=0.2).fit(Features((train,)))
    rule = detector.export_rule()
    assert rule == PrunedRule(0.2)
    state = detector.export_state()
    assert {name: len(shape) for name, shape in rule.shapes(4, 4, 24).items()} == {n: t.ndim for n, t in state.items()}
    image, cell, _ = rule.score(test, state, lambda cells: cells)
    expected = detector.score(Features((test,)))
    torch.testing.assert_close(cell, expected.cell, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(image, expected.image, rtol=1e-4, atol=1e-6)
