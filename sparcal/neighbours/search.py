"""Exact nearest neighbours in bounded memory.

Distances that decide are float64 sums of squared differences of the points as given. Everything faster (matrix
products, leading coordinates) only rules candidates out, with an allowance for its own rounding. Equal distances go to
the lower row.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from types import ModuleType
from typing import Self

import numpy as np
import torch
from torch import Tensor

from sparcal.errors import DataError, ShapeError
from sparcal.neighbours._boxes import LEADING_AXES, Boxes
from sparcal.neighbours._points import CACHE, check_points, loops_for
from sparcal.neighbours._sketch import Sketch
from sparcal.settings import instance_of, switch, whole_number
from sparcal.threads import in_order

MEMORY = 256 * 2**20

_WIDE = 96  # channels from which on leading axes save work
_FEW = 16  # so few queries are cheaper to compare with all candidates than to prepare all coordinates for
_PART = 256  # queries that are searched at a time


@dataclass(frozen=True, eq=False)
class Bank:
    """Rows that are searched many times, prepared once; make one with `Bank.of`.

    Args:
        rows: `(m, d)`; must not change.
        memory: as in `nearest`.
        boxes: what rules most rows out, by first row, number of rows and dtype of each block.
    """

    rows: Tensor
    memory: int
    boxes: Mapping[tuple[int, int, torch.dtype], Boxes]

    @classmethod
    @torch.no_grad()
    def of(cls, rows: Tensor, *, memory: int = MEMORY, like: Self | None = None) -> Self:
        """`rows`, checked and prepared; that costs about as much as searching them for one image.

        Args:
            like: a bank whose rows lie much like these, one by one: half of the work is then taken over from it. One of
                another shape has nothing to give.
        """
        instance_of(rows, "Bank.of's rows", Tensor, hint="torch.from_numpy makes one of an array")
        whole_number(memory, "Bank.of's memory", least=1)
        if like is not None:
            instance_of(like, "Bank.of's like", Bank, hint="Bank.of makes one")
        _check_bank(rows)
        known = like.boxes if like is not None and like.rows.shape == rows.shape else {}
        boxes = {}
        wide = rows.device.type == "cpu" and rows.shape[1] > _WIDE
        if wide and loops_for("search", _FEW * rows.numel()) is not None:
            for first, block in _blocks(rows, torch.promote_types(rows.dtype, torch.float32), 1, memory):
                key = first, len(block), block.dtype
                boxes[key] = _boxes(block, None, memory, known.get(key))
        return cls(rows, memory, boxes)

    @classmethod
    def again(cls, known: Self | None, rows: Tensor) -> Self:
        """`known`, if it is a bank of these very rows, else a new one like it."""
        return known if known is not None and known.rows is rows else cls.of(rows, like=known)


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
        rows, memory, boxes = bank.rows, bank.memory, bank.boxes
    else:
        rows, boxes = bank, {}
    for name, points in (("queries", queries), ("bank", rows)):
        instance_of(points, f"nearest's {name}", Tensor, hint="torch.from_numpy makes one of an array")
    whole_number(k, "nearest's k")
    switch(squared, "nearest's squared")
    whole_number(memory, "nearest's memory", least=1)
    if queries.device != rows.device:
        raise DataError(f"nearest needs both inputs on one device, got {queries.device} and {rows.device}: move one.")
    if not isinstance(bank, Bank):
        _check_bank(rows)
    _check_queries(queries, rows, k)
    dtype = torch.promote_types(torch.promote_types(queries.dtype, rows.dtype), torch.float32)
    squares = queries.new_empty(len(queries), 0, dtype=torch.float64)
    indices = queries.new_empty(len(queries), 0, dtype=torch.int64)
    for first, block in _blocks(rows, dtype, k, memory):
        known = boxes.get((first, len(block), dtype))
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
    """Lower bounds on squared distances to all rows of a bank, by one matrix product of all coordinates."""

    sketch: Sketch
    factors: Tensor  # (m, d + 1), the sketches, and their squared norm
    chunk: int  # rows handled at a time

    @classmethod
    def of(cls, bank: Tensor, queries: Tensor, memory: int) -> Self:
        dtype, chunk = _product_dtype(), _chunk(bank, memory)
        sketch = Sketch.of(bank, queries, width=None, chunk=chunk, dtype=dtype)
        sketched = sketch(bank, chunk).to(dtype)
        return cls(sketch, torch.cat((sketched, sketched.square().sum(1, keepdim=True)), dim=1), chunk)

    def __call__(self, queries: Tensor, room: Tensor) -> tuple[Tensor, Tensor]:
        """Bounds (q, m) in `room`, pads (q,): a bound above `sketch.growth * t + pad` proves a squared distance above t."""
        sketched = self.sketch(queries, self.chunk).to(self.factors.dtype)
        pads = self.sketch.pad + (self.sketch.width + 8) * 2**-22 - sketched.square().sum(1)  # the product's rounding
        factors = torch.cat((-2 * sketched, torch.ones_like(sketched[:, :1])), dim=1)
        bounds = torch.mm(factors, self.factors.T, out=room[: len(queries)])  # |b|² - 2ab
        return bounds.float(), pads.float()


def _boxes(bank: Tensor, queries: Tensor | None, memory: int, like: Boxes | None = None) -> Boxes:
    return Boxes.of(bank, queries, _chunk(bank, memory), _product_dtype(), like=like)


def _chunk(bank: Tensor, memory: int) -> int:
    """Rows handled at a time."""
    at_a_time = min(CACHE, memory // 16) if bank.device.type == "cpu" else memory // 4
    return max(1, at_a_time // (4 * bank.shape[1]))


def _product_dtype() -> torch.dtype:
    """Float64 where a user has let float32 products lose digits (TF32, bfloat16): those prove nothing."""
    return torch.float32 if torch.get_float32_matmul_precision() == "highest" else torch.float64


def _search_block(queries: Tensor, bank: Tensor, k: int, memory: int, known: Boxes | None) -> tuple[Tensor, Tensor]:
    """Squared distances and indices (q, k) in one block of the bank.

    Boxes along a few leading axes settle most queries. Where too many candidates are left (data without leading axes), all
    coordinates are used.

    Args:
        known: boxes of this block from an earlier search.
    """
    (q, d), m = queries.shape, len(bank)
    result = queries.new_empty(q, k, dtype=torch.float64), queries.new_empty(q, k, dtype=torch.int64)
    todo = torch.arange(q, device=queries.device)
    loops = loops_for("search", q * m * d) if bank.device.type == "cpu" else None
    if loops is not None and d > _WIDE:
        if known is None or not known.serve(queries, _product_dtype()):
            known = _boxes(bank, queries, memory) if _sketch_pays(q, m) else None
        if known is not None:
            todo = _search_boxes(queries, bank, known, result)
    if len(todo) > 0:
        _settle(queries, bank, _Bounds.of(bank, queries, memory), todo, result, loops)
    return result


def _search_boxes(queries: Tensor, bank: Tensor, boxes: Boxes, result: tuple[Tensor, Tensor]) -> Tensor:
    """Fill `result`; the numbers of queries that would need too many exact distances come back."""
    k, m = result[0].shape[1], len(bank)

    def search(rows: Tensor) -> Tensor:
        span = slice(int(rows[0]), int(rows[-1]) + 1)
        some = queries[span].to(bank.dtype).contiguous()
        return boxes.search(some, bank, k + m // 32, (result[0][span], result[1][span]))

    left = []
    parts = torch.arange(len(queries)).split(_PART)
    threads = min(torch.get_num_threads(), len(parts))
    with closing(in_order(search, parts, workers=threads) if threads > 1 else _each(search, parts)) as found:
        for number, settled in enumerate(found):
            left.append(parts[number][~settled])
            if 2 * int(settled.sum()) < len(settled):  # the others will fare no better
                left += parts[number + 1 :]
                break
    todo = torch.cat(left)
    if len(todo) <= _FEW:  # cheaper to compare with all candidates than to prepare all coordinates for
        for i in todo.tolist():
            one = slice(i, i + 1)
            boxes.search(queries[one].to(bank.dtype), bank, k + m, (result[0][one], result[1][one]))
        return todo[:0]
    return todo


def _each(work: Callable[[Tensor], Tensor], parts: Sequence[Tensor]) -> Generator[Tensor, None, None]:
    """`in_order` without a thread of its own."""
    yield from map(work, parts)


def _settle(
    queries: Tensor,
    bank: Tensor,
    bounds: _Bounds,
    todo: Tensor,
    result: tuple[Tensor, Tensor],
    loops: ModuleType | None,
) -> None:
    """Fill `result` for the queries numbered `todo`."""
    squares, indices = result
    k = squares.shape[1]
    parts = todo.split(max(1, bounds.chunk * bank.shape[1] // len(bank)))
    room = bounds.factors.new_empty(len(parts[0]), len(bank))
    for rows in parts:
        some = queries[rows].to(bank.dtype)
        lower, pads = bounds(some, room)
        growth = bounds.sketch.growth
        if loops is None:
            memory = 16 * bounds.chunk * bank.shape[1]
            squares[rows], indices[rows] = _refine_plain(some, bank, lower, (growth, pads), k, memory)
            continue
        near, where = np.empty((len(rows), k)), np.empty((len(rows), k), np.int64)
        loops.refine_nearest(some.numpy(), bank.numpy(), (lower.numpy(), growth, pads.numpy()), near, where)
        squares[rows], indices[rows] = torch.from_numpy(near), torch.from_numpy(where)


def _sketch_pays(q: int, m: int) -> bool:
    """Whether the products that leading coordinates save outweigh finding them; measured on banks of 3,000 to 30,000 rows."""
    return q * m > 2 * LEADING_AXES * (m + 8_000)


def _refine_plain(
    queries: Tensor, bank: Tensor, lower: Tensor, ceiling: tuple[float, Tensor], k: int, memory: int
) -> tuple[Tensor, Tensor]:
    """What `refine_nearest` does, without a compiler, and on any device."""
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
