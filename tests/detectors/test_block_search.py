"""The nearest row of a bank, with blocks of rows left out by proof, against all distances."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sparcal.detectors import AnomalyDINO, block_search
from sparcal.detectors.block_search import (
    FAR,
    TILE,
    block_shapes,
    block_tensors,
    cell_tiles,
    near_rows_together,
    nearest_rows,
    nearest_squares,
    nearest_squares_plainly,
    take_rows,
)
from sparcal.detectors.nearest_rule import NearestRule
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
    d=st.sampled_from([2, 15, 16, 17, 100]),
    spread=st.sampled_from([0.0, 0.05, 0.3]),
    many=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    scale=st.sampled_from([1e-3, 1.0, 40.0]),
)
def test_finds_what_all_distances_find(seed, rows, d, spread, many, scale):
    random = torch.Generator().manual_seed(seed)
    bank = mixture(random, rows, d, spread)
    queries = torch.cat((mixture(random, 90, d, spread), bank[:3], -bank[:2]))  # members and opposites among them
    tensors = block_tensors(scale * bank)
    x = scale * queries - tensors["bank_centre"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block_search, "MANY", many)
        got = nearest_squares(x, tensors)
    want = (queries.double()[:, None] - bank.double()).square().sum(dim=-1).amin(dim=1) * scale**2
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-6 * scale**2)
    torch.testing.assert_close(got, nearest_squares_plainly(x, tensors), rtol=1e-5, atol=1e-6 * scale**2)


def test_no_box_is_left_out_that_holds_the_nearest_row():
    """Boxes alone, without the guess: every box is at most as far away as each row in it."""
    random = torch.Generator().manual_seed(0)
    bank, queries = mixture(random, 3000, 64, 0.3), mixture(random, 50, 64, 0.3)
    tensors = block_tensors(bank)
    x = queries - tensors["bank_centre"]
    middle, half = tensors["bank_boxes"]
    bounds = (((x @ tensors["bank_axes"])[:, :, None] - middle).abs() - half).relu().square().sum(dim=1)
    rows = take_rows(
        tensors["bank"], torch.arange(tensors["bank"].shape[:2].numel()).reshape(tensors["bank"].shape[:2])
    )
    real = tensors["bank"][..., -1] < FAR
    squares = (x[:, None, None] - rows).square().sum(dim=-1).masked_fill(~real, torch.inf).amin(dim=2)
    assert (bounds <= squares).all()
    assert (bounds > 0).float().mean() > 0.5


def test_most_rows_are_left_out(monkeypatch):
    random = torch.Generator().manual_seed(0)
    bank, queries = mixture(random, 6000, 100, 0.3), mixture(random, 500, 100, 0.3)
    tiled = []
    monkeypatch.setattr(block_search, "cell_tiles", lambda left: tiled.append(left) or cell_tiles(left))
    tensors = block_tensors(bank)
    nearest_squares(queries - tensors["bank_centre"], tensors)
    assert tiled[0].float().mean() < 0.3


def test_tiles_hold_every_cell_of_every_block():
    left = torch.rand(9, 300, generator=torch.Generator().manual_seed(0)) < torch.linspace(0, 1, 9)[:, None]
    who, block = cell_tiles(left)
    assert who.shape == (sum(-(-int(count) // TILE) for count in left.sum(dim=1)), TILE)
    assert {(int(b), int(c)) for b, cells in zip(block, who, strict=True) for c in cells} == {
        (int(b), int(c)) for b, c in left.nonzero()
    }


def test_every_row_is_in_one_block():
    points = torch.randn(1000, 3, generator=torch.Generator().manual_seed(0))
    order = near_rows_together(points, 64)
    assert order.sort().values.tolist() == list(range(1000))
    spans = [points[part].amax(dim=0) - points[part].amin(dim=0) for part in order[: 15 * 64].split(64)]
    assert torch.stack(spans).mean() < 0.6 * (points.amax(dim=0) - points.amin(dim=0)).mean()


@pytest.mark.parametrize("rows", [1, 31, 33, 500])
def test_what_fills_up_the_last_block_is_never_near(rows):
    random = torch.Generator().manual_seed(0)
    bank = mixture(random, rows, 20, 0.3)
    tensors = block_tensors(bank)
    k = min(rows, 5)
    x = bank[:8] - tensors["bank_centre"]
    found = (x[:, None] - take_rows(tensors["bank"], nearest_rows(x, tensors["bank"], k))).square().sum(dim=-1)
    want = torch.cdist(bank[:8].double(), bank.double()).square().topk(k, largest=False).values
    torch.testing.assert_close(found.double().sort(dim=1).values, want, rtol=1e-4, atol=1e-6)


def test_scores_as_the_detector_does():
    random = torch.Generator().manual_seed(0)
    train, test = (mixture(random, n * 16, 24, 0.3).reshape(n, 4, 4, 24) for n in (20, 3))
    detector = AnomalyDINO(top=0.2).fit(Features((train,)))
    rule = detector.export_rule()
    assert rule == NearestRule(1, squared=True, unit=True, top=0.2)
    state = detector.export_state()
    assert {name: len(shape) for name, shape in rule.shapes(4, 4, 24).items()} == {n: t.ndim for n, t in state.items()}
    assert set(state) == set(block_shapes(24))
    image, cell, _ = rule.score(test, state, lambda cells: cells)
    expected = detector.score(Features((test,)))
    torch.testing.assert_close(cell, expected.cell, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(image, expected.image, rtol=1e-4, atol=1e-6)
