"""Exact nearest neighbours in bounded memory.

Distances that decide are float64 sums of squared differences of the points as given. Everything faster (matrix
products, leading coordinates) only rules candidates out, with an allowance for its own rounding. Equal distances go to
the lower row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from sparcal.errors import DataError, ShapeError
from sparcal.neighbours._points import CACHE, check_points, loops_for
from sparcal.neighbours._sketch import Sketch

MEMORY = 256 * 2**20

_NEAREST_WIDTH = 96  # leading axes that rule out nearly all bank rows
_NEAREST_COARSE = 16  # of these, the first that are compared with all rows; the others only with the rows that remain
_FEW = 16  # so few queries are cheaper to compare with all candidates than to prepare all coordinates for


@dataclass(frozen=True, eq=False)
class Bank:
    """Rows that are searched many times, prepared once; make one with `Bank.of`.

    Args:
        rows: `(m, d)`; must not change.
        memory: as in `nearest`.
        bounds: what rules most rows out, by first row, number of rows and dtype of each block.
    """

    rows: Tensor
    memory: int
    bounds: Mapping[tuple[int, int, torch.dtype], _Bounds]

    @classmethod
    @torch.no_grad()
    def of(cls, rows: Tensor, *, memory: int = MEMORY) -> Self:
        """`rows`, checked and prepared; that costs about as much as searching them for one image."""
        _check_bank(rows)
        bounds = {}
        wide = rows.device.type == "cpu" and rows.shape[1] > _NEAREST_WIDTH
        if wide and loops_for(_FEW * rows.numel()) is not None:
            for first, block in _blocks(rows, torch.promote_types(rows.dtype, torch.float32), 1, memory):
                bounds[first, len(block), block.dtype] = _Bounds.of(block, None, memory, leading=True)
        return cls(rows, memory, bounds)

    @classmethod
    def again(cls, known: Self | None, rows: Tensor) -> Self:
        """`known`, if it is a bank of these very rows, else a new one."""
        return known if known is not None and known.rows is rows else cls.of(rows)


@torch.no_grad()
def nearest(
    queries: Tensor, bank: Tensor | Bank, *, k: int = 1, squared: bool = False, memory: int = MEMORY
) -> tuple[Tensor, Tensor]:
    """Euclidean distances (q, k), ascending, from each query to its k nearest bank rows, and their indices (q, k).

    Args:
        queries: `(q, d)`; give as many at once as there are, unless the bank is prepared.
        bank: `(m, d)`, m >= k; rows given as a tensor are prepared anew in each call, those of a `Bank` once.
        squared: return squared distances.
        memory: about how many bytes may be used besides inputs and outputs; a `Bank` has its own.

    Distances are float32, or float64 if an input is.

    >>> bank = torch.tensor([[0.0, 0.0], [3.0, 4.0], [9.0, 9.0]])
    >>> nearest(torch.tensor([[3.0, 3.0]]), bank, k=2)
    (tensor([[1.0000, 4.2426]]), tensor([[1, 0]]))
    """
    if isinstance(bank, Bank):
        rows, memory, bounds = bank.rows, bank.memory, bank.bounds
    else:
        rows, bounds = bank, {}
    if queries.device != rows.device:
        raise DataError(f"nearest needs both inputs on one device, got {queries.device} and {rows.device}: move one.")
    if not isinstance(bank, Bank):
        _check_bank(rows)
    _check_queries(queries, rows, k)
    dtype = torch.promote_types(torch.promote_types(queries.dtype, rows.dtype), torch.float32)
    squares = queries.new_empty(len(queries), 0, dtype=torch.float64)
    indices = queries.new_empty(len(queries), 0, dtype=torch.int64)
    for first, block in _blocks(rows, dtype, k, memory):
        known = bounds.get((first, len(block), dtype))
        near, where = _search_block(queries.detach(), block, min(k, len(block)), memory, known)
        # Earlier blocks hold lower indices and stand first, so a stable sort keeps the tie rule.
        squares, order = torch.cat((squares, near), 1).sort(dim=1, stable=True)
        indices = torch.cat((indices, where + first), 1).gather(1, order)
        squares, indices = squares[:, :k], indices[:, :k]
    return (squares if squared else squares.sqrt()).to(dtype), indices


def _blocks(rows: Tensor, dtype: torch.dtype, k: int, memory: int) -> Iterator[tuple[int, Tensor]]:
    """Blocks of at least k rows that `memory` has room for, in `dtype`, with the number of their first row."""
    step = max(k, memory // (2 * rows.shape[1] * dtype.itemsize))
    for first in range(0, len(rows), step):
        yield first, rows[first : first + step].detach().to(dtype).contiguous()


@dataclass(frozen=True)
class _Bounds:
    """Lower bounds on squared distances to all rows of a bank, by one matrix product of sketches."""

    sketch: Sketch
    coarse: Tensor  # (m, c + 1), the coordinates in the product, and their squared norm
    fine: Tensor  # (m, p), the others, float32
    chunk: int  # rows handled at a time

    @classmethod
    def of(cls, bank: Tensor, queries: Tensor | None, memory: int, *, leading: bool) -> Self:
        """By leading axes or by all coordinates; for `queries`, or any that lie not much farther out than the bank."""
        dtype = _product_dtype()
        at_a_time = min(CACHE, memory // 16) if bank.device.type == "cpu" else memory // 4
        chunk = max(1, at_a_time // (4 * bank.shape[1]))
        others, room = ((), 2.0) if queries is None else ((queries,), 1.0)
        width = min(_NEAREST_WIDTH, bank.shape[1] // 2) if leading else None
        sketch = Sketch.of(bank, *others, width=width, chunk=chunk, dtype=dtype, room=room)
        sketched = sketch(bank, chunk)
        split = _NEAREST_COARSE if leading else sketch.width
        coarse = sketched[:, :split].to(dtype)
        coarse = torch.cat((coarse, coarse.square().sum(1, keepdim=True)), dim=1)
        return cls(sketch, coarse, sketched[:, split:].contiguous(), chunk)

    def serve(self, queries: Tensor) -> bool:
        """Whether the bounds, made before the queries were known, prove anything about them."""
        return self.coarse.dtype in (_product_dtype(), torch.float64) and self.sketch.covers(queries, self.chunk)

    def __call__(self, queries: Tensor, room: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Bounds (q, m) in `room`, fine coordinates (q, p), pads (q,).

        A bound, or one with the squared distance of the fine coordinates added, above `sketch.growth * t + pad` proves
        a squared distance above t.
        """
        sketched = self.sketch(queries, self.chunk)
        split = self.coarse.shape[1] - 1
        coarse = sketched[:, :split].to(self.coarse.dtype)
        pads = self.sketch.pad + (split + 8) * 2**-22 - coarse.square().sum(1)  # the rounding of the product
        factors = torch.cat((-2 * coarse, torch.ones_like(coarse[:, :1])), dim=1)
        bounds = torch.mm(factors, self.coarse.T, out=room[: len(queries)])  # |b|² - 2ab
        return bounds.float(), sketched[:, split:].contiguous(), pads.float()


def _product_dtype() -> torch.dtype:
    """Float64 where a user has let float32 products lose digits (TF32, bfloat16): those prove nothing."""
    return torch.float32 if torch.get_float32_matmul_precision() == "highest" else torch.float64


def _search_block(queries: Tensor, bank: Tensor, k: int, memory: int, known: _Bounds | None) -> tuple[Tensor, Tensor]:
    """Squared distances and indices (q, k) in one block of the bank.

    A few leading coordinates settle most queries. Where too many candidates are left (data without leading axes), all
    coordinates are used.

    Args:
        known: by leading coordinates, from an earlier search.
    """
    (q, d), m = queries.shape, len(bank)
    result = queries.new_empty(q, k, dtype=torch.float64), queries.new_empty(q, k, dtype=torch.int64)
    todo = torch.arange(q, device=queries.device)
    loops = loops_for(q * m * d) if bank.device.type == "cpu" else None
    leading = known if loops is not None and known is not None and known.serve(queries) else None
    if leading is None and loops is not None and d > _NEAREST_WIDTH and _sketch_pays(q, m):
        leading = _Bounds.of(bank, queries, memory, leading=True)
    if leading is not None:
        todo = _settle(queries, bank, leading, todo, result, loops, k + m // 32)
        if len(todo) <= _FEW:
            todo = _settle(queries, bank, leading, todo, result, loops, m)
    if len(todo) > 0:
        _settle(queries, bank, _Bounds.of(bank, queries, memory, leading=False), todo, result, loops, m)
    return result


def _settle(
    queries: Tensor,
    bank: Tensor,
    bounds: _Bounds,
    todo: Tensor,
    result: tuple[Tensor, Tensor],
    loops: ModuleType | None,
    budget: int,
) -> Tensor:
    """Fill `result` for the queries numbered `todo`; those that need more than `budget` exact distances come back."""
    squares, indices = result
    k = squares.shape[1]
    parts = todo.split(max(1, bounds.chunk * bank.shape[1] // len(bank)))
    left = todo[:0]
    room = bounds.coarse.new_empty(len(parts[0]), len(bank))
    for number, rows in enumerate(parts):
        some = queries[rows].to(bank.dtype)
        lower, fine, pads = bounds(some, room)
        growth = bounds.sketch.growth
        if loops is None:
            memory = 16 * bounds.chunk * bank.shape[1]
            squares[rows], indices[rows] = _refine_plain(some, bank, lower, (growth, pads), k, memory)
            continue
        proof = (lower.numpy(), fine.numpy(), bounds.fine.numpy(), growth, pads.numpy())
        squares[rows], indices[rows], settled = _refine(some, bank, proof, k, budget, loops)
        left = torch.cat((left, rows[~settled]))
        if 2 * int(settled.sum()) < len(rows):  # the others will fare no better
            return torch.cat((left, *parts[number + 1 :]))
    return left


def _sketch_pays(q: int, m: int) -> bool:
    """Whether the products that leading coordinates save outweigh finding them, with a margin."""
    return q * m > 2 * _NEAREST_WIDTH * (m + 12_000)


def _refine(
    queries: Tensor, bank: Tensor, proof: tuple[Any, ...], k: int, budget: int, loops: ModuleType
) -> tuple[Tensor, Tensor, Tensor]:
    """Squares and indices (q, k), and which queries `budget` exact distances sufficed for."""
    squares, indices = np.empty((len(queries), k)), np.empty((len(queries), k), np.int64)
    settled = loops.refine_nearest(queries.numpy(), bank.numpy(), proof, budget, squares, indices)
    return torch.from_numpy(squares), torch.from_numpy(indices), torch.from_numpy(settled)


def _refine_plain(
    queries: Tensor, bank: Tensor, lower: Tensor, ceiling: tuple[float, Tensor], k: int, memory: int
) -> tuple[Tensor, Tensor]:
    """What `_refine` does, without a compiler, on any device, and without a budget."""
    growth, pads = ceiling
    squares = lower.new_empty(len(queries), k, dtype=torch.float64)
    indices = lower.new_empty(len(queries), k, dtype=torch.int64)
    todo = torch.arange(len(queries), device=queries.device)
    taken = k
    while len(todo) > 0:
        taken = min(4 * taken, len(bank))
        bounds, where = lower[todo].topk(taken, largest=False)
        where = where.sort(dim=1).values  # so that the stable sort gives equals to the lower row
        exact, order = _pair_squares(queries[todo], bank, where, memory).sort(dim=1, stable=True)
        squares[todo], indices[todo] = exact[:, :k], where.gather(1, order)[:, :k]
        if taken == len(bank):
            break
        todo = todo[bounds[:, -1] <= exact[:, k - 1] * growth + pads[todo]]
    return squares, indices


def _pair_squares(queries: Tensor, bank: Tensor, where: Tensor, memory: int) -> Tensor:
    """Squared distances (q, c) from query i to the bank rows `where[i]`, by direct difference in float64."""
    owner = torch.arange(len(queries), device=queries.device).repeat_interleave(where.shape[1])
    pairs = max(1, memory // (24 * bank.shape[1]))
    parts = zip(owner.split(pairs), where.flatten().split(pairs), strict=True)
    return torch.cat([(queries[a].double() - bank[b].double()).square().sum(1) for a, b in parts]).view_as(where)


def _check_bank(bank: Tensor) -> None:
    check_points("nearest: bank", bank)
    if len(bank) == 0:
        raise DataError("nearest needs a bank of at least one row, got none: fit the detector on at least one image.")


def _check_queries(queries: Tensor, bank: Tensor, k: int) -> None:
    check_points("nearest: queries", queries)
    if queries.shape[1] != bank.shape[1]:
        raise ShapeError(
            f"nearest needs queries and bank of one width, got {queries.shape[1]} and {bank.shape[1]} columns: "
            "encode both with one encoder."
        )
    if not 1 <= k <= len(bank):
        raise DataError(f"nearest needs k between 1 and the {len(bank)} rows of the bank, got {k}: choose another k.")
