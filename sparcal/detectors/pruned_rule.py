"""1 - cosine to the nearest row of a large bank, for exported graphs: AnomalyDINO with one neighbour.

A bank of all training cells is too large to take every distance. The leading principal axes of the bank, and the length of
what is left beside them, give a lower bound on every distance at less than half the cost. Near rows are kept side by side in
blocks, so that few blocks hold all rows whose bound is below a distance already known; only these rows are compared in
full. Nothing is lost: rows are left out by proof.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from sparcal.detectors.export_rule import DrawMap, GraphShapes, GraphTensors
from sparcal.imaging.maps import top_mean

ROWS_TOGETHER = 64  # bank rows that share a lowest bound
LEADING = 62  # principal axes; with the rest's length and the square they make 64 columns
MOST_ROWS = 256  # compared in full per cell; a cell with more, as in a picture of something else, takes the whole bank
SLACK = 1e-4  # more than float32 can be wrong by in a bound between vectors of length 2
MOST_PAIRS = 2**40  # for the tracer, which takes any number for possible


@dataclass(frozen=True)
class PrunedRule:
    """Half the squared distance to the nearest row of a bank, after bringing features to unit length: 1 - cosine.

    Args:
        top: share of the cells whose mean scores the image.
    """

    top: float

    def shapes(self, h: int, w: int, d: int) -> GraphShapes:  # noqa: ARG002
        """The names and shapes of the tensors for a grid of features; b counts blocks of rows."""
        leading = min(LEADING, d)
        return {
            "bank": ("b", ROWS_TOGETHER, d),
            "bank_axes": (d, leading),
            "bank_bounds": ("b", ROWS_TOGETHER, leading + 2),
            "bank_centre": (d,),
            "bank_squares": ("b", ROWS_TOGETHER),
        }

    def score(self, level: Tensor, tensors: GraphTensors, draw: DrawMap) -> tuple[Tensor, Tensor, Tensor]:
        """Image scores (n,), cell scores (n, h, w) and maps (n, H, W) of features (n, h, w, d)."""
        n, h, w, d = level.shape
        x = normalize(level.reshape(n * h * w, d), dim=1) - tensors["bank_centre"]
        cell = nearest_squares(x, tensors).reshape(n, h, w) / 2
        return top_mean(cell.flatten(1), self.top), cell, draw(cell)

    def tensors(self, bank: Tensor) -> GraphTensors:
        """The bank (m, d) of a fitted detector by the names that `score` reads."""
        centre = bank.double().mean(dim=0).float()
        centred = bank.double() - centre
        axes = torch.linalg.eigh(centred.mT @ centred).eigenvectors.flip(1)[:, :LEADING]
        order = near_rows_together(centred @ axes)
        order = torch.cat(
            (order, order[-1:].expand(-len(order) % ROWS_TOGETHER))
        )  # a row that is there twice changes no minimum
        rows = centred[order]
        bounded = torch.cat((rows @ axes, _rest(rows, axes)), dim=1)
        bounds = torch.cat((-2 * bounded, bounded.square().sum(dim=1, keepdim=True)), dim=1)
        blocks = {"bank": rows, "bank_bounds": bounds, "bank_squares": rows.square().sum(dim=1)}
        return {
            "bank_axes": axes.float(),
            "bank_centre": centre,
            **{name: rows.float().unflatten(0, (-1, ROWS_TOGETHER)) for name, rows in blocks.items()},
        }


def near_rows_together(points: Tensor) -> Tensor:
    """(m,): an order of points (m, p) in which each ROWS_TOGETHER is a box of its own: halved along the longest side, again and again."""
    order = torch.arange(len(points))
    waiting = [order]
    done = []
    while waiting:
        part = waiting.pop()
        if len(part) <= ROWS_TOGETHER:
            done.append(part)
            continue
        own = points[part]
        axis = int(own.var(dim=0).argmax())
        half = (len(part) // ROWS_TOGETHER + 1) // 2 * ROWS_TOGETHER
        part = part[own[:, axis].argsort(stable=True)]
        waiting += [part[half:], part[:half]]
    return torch.cat(done)


def nearest_squares(x: Tensor, tensors: GraphTensors) -> Tensor:
    """(q,): the squared distance of each of (q, d) to the nearest row of the bank, both relative to its centre."""
    bank, axes = tensors["bank"].flatten(0, 1), tensors["bank_axes"]
    rest = _rest(x, axes)
    own = torch.cat((x @ axes, rest, torch.ones_like(rest)), dim=1)
    # Lower bounds on the squared distances, each less the same for all rows of a cell: |own|^2.
    bounds = (own @ tensors["bank_bounds"].flatten(0, 1).mT).reshape(x.shape[0], -1, ROWS_TOGETHER)
    lowest = bounds.amin(dim=2)  # (q, b)
    blocks = bounds.flatten(0, 1)
    cells = torch.arange(x.shape[0], device=x.device)
    likely = lowest.argmin(dim=1)
    first = likely * ROWS_TOGETHER + blocks.index_select(0, cells * lowest.shape[1] + likely).argmin(dim=1)
    nearest = _square_gaps(x, bank.index_select(0, first))
    allowed = nearest - own[:, :-1].square().sum(dim=1) + SLACK

    cell, block = (lowest <= allowed[:, None]).nonzero(as_tuple=True)
    torch._check(cell.shape[0] <= MOST_PAIRS)
    within = blocks.index_select(0, cell * lowest.shape[1] + block) <= allowed.index_select(0, cell)[:, None]
    rows = torch.zeros_like(allowed).scatter_add(0, cell, within.float().sum(dim=1))
    # The first cell always takes the whole bank: runtimes differ in what they make of no rows at all.
    hard = (rows > MOST_ROWS) | (cells == 0)
    nearest = nearest.minimum(_of_whole_bank(x, hard, bank, tensors["bank_squares"].flatten()))
    pair, place = (within & ~hard.index_select(0, cell)[:, None]).nonzero(as_tuple=True)
    torch._check(pair.shape[0] <= ROWS_TOGETHER * MOST_PAIRS)
    who = cell.index_select(0, pair)
    candidates = bank.index_select(0, block.index_select(0, pair) * ROWS_TOGETHER + place)
    return nearest.scatter_reduce(0, who, _square_gaps(x.index_select(0, who), candidates), "amin")


def _of_whole_bank(x: Tensor, wanted: Tensor, bank: Tensor, squares: Tensor) -> Tensor:
    """(q,): squared distances to the nearest of all rows where `wanted`, infinite elsewhere."""
    (where,) = wanted.nonzero(as_tuple=True)
    torch._check(where.shape[0] <= MOST_PAIRS)
    own = x.index_select(0, where)
    found = torch.addmm(squares, own, bank.mT, alpha=-2).argmin(dim=1)  # |x|^2 would change no order
    far = torch.full_like(x[:, 0], torch.inf)
    return far.scatter(0, where, _square_gaps(own, bank.index_select(0, found)))


def _square_gaps(a: Tensor, b: Tensor) -> Tensor:
    gap = a - b
    return (gap * gap).sum(dim=1)


def _rest(x: Tensor, axes: Tensor) -> Tensor:
    """(q, 1): the length of what the axes (d, p) leave of (q, d)."""
    length: Tensor = torch.linalg.vector_norm(x - (x @ axes) @ axes.mT, dim=1, keepdim=True)
    return length
