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
    box_bounds,
    cell_tiles,
    compare_tiles,
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
    nearly_all=st.sampled_from([0.0, 0.5, 1.0]),
    scale=st.sampled_from([1e-3, 1.0, 40.0]),
)
def test_finds_what_all_distances_find(seed, rows, d, spread, many, nearly_all, scale):
    random = torch.Generator().manual_seed(seed)
    bank = mixture(random, rows, d, spread)
    queries = torch.cat((mixture(random, 90, d, spread), bank[:3], -bank[:2]))  # members and opposites among them
    tensors = block_tensors(scale * bank)
    x = scale * queries - tensors["bank_centre"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block_search, "MANY", many)
        patch.setattr(block_search, "NEARLY_ALL", nearly_all)
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
    bounds = box_bounds(x @ tensors["bank_axes"], tensors["bank_boxes"]).mT
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
    monkeypatch.setattr(block_search, "MANY", 1.0)
    monkeypatch.setattr(block_search, "NEARLY_ALL", 1.0)
    tensors = block_tensors(bank)
    nearest_squares(queries - tensors["bank_centre"], tensors)
    by_boxes, along_axes = tiled
    assert by_boxes.float().mean() < 0.7
    assert along_axes.float().mean() < 0.15


def slow_lowest(points, blocks, who, block):
    """The lowest product of each cell of a tile with a row of the tile's block, one by one."""
    return torch.stack(
        [
            (blocks[b].double() @ points[cell].double()).amin()
            for cells, b in zip(who, block, strict=True)
            for cell in cells
        ]
    )


@pytest.mark.parametrize("scale", [1e-3, 1.0, 40.0])
def test_tiles_are_compared_with_every_row_of_their_blocks(scale):
    random = torch.Generator().manual_seed(0)
    bank = mixture(random, 300, 40, 0.3)
    bank = torch.cat((bank, bank[:30]))  # with equals, in other blocks
    tensors = block_tensors(scale * bank)
    x = scale * mixture(random, 70, 40, 0.3) - tensors["bank_centre"]
    squares = x.square().sum(dim=1)
    points = torch.cat((x, torch.ones(70, 1)), dim=1)
    who, block = cell_tiles(torch.rand(tensors["bank"].shape[0], 70, generator=random) < 0.4)
    lowest, cell, row = compare_tiles(points, tensors["bank"], (who, block), squares)
    want = slow_lowest(points, tensors["bank"], who, block)
    torch.testing.assert_close(lowest.double(), want, rtol=1e-5, atol=1e-6 * scale**2)
    best = {int(c): want[who.flatten() == c].amin() for c in who.unique()}
    assert set(cell.tolist()) == set(best)
    assert len(cell) < 3 * 70  # else most pairs would be compared by difference
    found = (x[cell] - take_rows(tensors["bank"], row)).square().sum(dim=1) - squares[cell]
    for c, value in zip(cell.tolist(), found, strict=True):
        assert abs(value - best[c]) <= 1e-5 * scale**2


def test_no_block_is_left_out_that_holds_the_nearest_row():
    """Products along the leading axes, less the allowance for rounding, are at most the squared distance of each row."""
    random = torch.Generator().manual_seed(0)
    bank = 30 + mixture(random, 500, 64, 0.3)
    tensors = block_tensors(bank)
    x = torch.cat((30 + mixture(random, 40, 64, 0.3), bank[:10], 9 * bank[:5])) - tensors["bank_centre"]
    along, squares = x @ tensors["bank_axes"], x.square().sum(dim=1)
    short = torch.cat((along, torch.ones(len(x), 1)), dim=1)
    everywhere = cell_tiles(torch.ones(tensors["bank"].shape[0], len(x), dtype=torch.bool))
    lowest, _, _ = compare_tiles(short, tensors["bank_leading"], everywhere, squares)
    cells = everywhere[0].flatten()
    bound = lowest.double() + along.square().sum(dim=1)[cells] - block_search._rounding(64) * squares[cells]
    rows = tensors["bank"][..., :-1] / -2  # those at the origin that only fill up are no nearer than the nearest
    for number, block in enumerate(everywhere[1].repeat_interleave(TILE)):
        real = rows[block][tensors["bank"][block, :, -1] < FAR]
        nearest = (x[cells[number]].double() - real.double()).square().sum(dim=1).amin()
        assert bound[number] <= block_search._growth() * nearest


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


def test_halves_settle_around_two_means():
    """Two groups that overlap along every axis, and lie apart across all of them."""
    random = torch.Generator().manual_seed(0)
    group = torch.arange(128) % 2
    points = torch.randn(128, 16, generator=random) + 3 * (2.0 * group[:, None] - 1) / 2
    order = near_rows_together(points, 64)
    assert [len(group[part].unique()) for part in order.split(64)] == [1, 1]


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
