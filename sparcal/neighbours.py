"""Exact nearest neighbours and the greedy coreset, in bounded memory.

Both are exact: distances that decide are float64 sums of squared differences of the points as given, and
everything faster (matrix products, leading coordinates, distances to some members only) just rules candidates out,
with an allowance for its own rounding. Equal distances go to the lower index, and distances are equal if their float64
sums are: a loop in float32 calls more of them equal, may then choose in another order, and covers as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Self

import numpy as np
import torch
from torch import Tensor

from sparcal._sketch import Sketch
from sparcal.types import DataError, ShapeError

_TINY = 2**22  # below this many coordinate differences, compiled loops do not repay their import
_CACHE = 2**22  # bytes worked on at a time: about what a processor keeps close
_NEAREST_WIDTH = 48  # leading axes that rule out most bank rows
_CORESET_WIDTH = 64


@torch.no_grad()
def nearest(
    queries: Tensor, bank: Tensor, *, k: int = 1, squared: bool = False, memory: int = 256 * 2**20
) -> tuple[Tensor, Tensor]:
    """Euclidean distances (q, k), ascending, from each query to its k nearest bank rows, and their indices (q, k).

    Args:
        queries: `(q, d)`; give as many at once as there are, the bank is prepared anew in each call.
        bank: `(m, d)`, m >= k.
        squared: return squared distances.
        memory: about how many bytes may be used besides inputs and outputs.

    Distances are float32, or float64 if an input is.
    """
    _check_neighbours(queries, bank, k)
    dtype = torch.promote_types(torch.promote_types(queries.dtype, bank.dtype), torch.float32)
    squares = queries.new_empty(len(queries), 0, dtype=torch.float64)
    indices = queries.new_empty(len(queries), 0, dtype=torch.int64)
    rows = max(k, memory // (2 * bank.shape[1] * dtype.itemsize))
    for first in range(0, len(bank), rows):
        block = bank[first : first + rows].detach().to(dtype).contiguous()
        found, where = _search_block(queries.detach(), block, min(k, len(block)), memory)
        # Earlier blocks hold lower indices and stand first, so a stable sort keeps the tie rule.
        squares, order = torch.cat((squares, found), 1).sort(dim=1, stable=True)
        indices = torch.cat((indices, where + first), 1).gather(1, order)
        squares, indices = squares[:, :k], indices[:, :k]
    return (squares if squared else squares.sqrt()).to(dtype), indices


def greedy_coreset(points: Tensor, size: int, *, start: int = 0, initial: Tensor | None = None) -> Tensor:
    """Indices of `size` points, each the farthest from those before it, in order of selection.

    Args:
        points: `(n, d)`.
        start: the first member; ignored if `initial` is given.
        initial: `(n,)` distances that stand for points outside the coreset; selection then begins at the largest.

    The loops run on the CPU, on one thread, so that the indices are the same for points on any device; they need
    about `560 * n` bytes besides the points. Once every point coincides with a member, index 0 is repeated.
    """
    _check_coreset(points, size, start, initial)
    rows = points.detach().to("cpu", torch.promote_types(points.dtype, torch.float32)).contiguous()
    squares = torch.full((len(rows),), torch.inf, dtype=torch.float64)
    if initial is not None:
        squares = initial.detach().to("cpu", torch.float64).square()
        start = int(squares.numpy().argmax())
    loops = _compiled_loops() if rows.numel() * size > _TINY else None
    chosen = _grow_plain(rows, squares, start, size) if loops is None else _grow(rows, squares, start, size, loops)
    return chosen.to(points.device)


@dataclass(frozen=True)
class _Bounds:
    """Lower bounds on squared distances to all rows of a bank, by one matrix product of sketches."""

    sketch: Sketch
    bank: Tensor  # (m, p), sketched
    norms: Tensor  # (m,), squared
    chunk: int

    @classmethod
    def of(cls, bank: Tensor, queries: Tensor, width: int | None, chunk: int) -> Self:
        # A user may have let float32 products lose digits (TF32, bfloat16); then they prove nothing.
        dtype = torch.float32 if torch.get_float32_matmul_precision() == "highest" else torch.float64
        sketch = Sketch.of(bank, queries, width=width, chunk=chunk, dtype=dtype)
        sketched = sketch(bank, chunk).to(dtype)
        return cls(sketch, sketched, sketched.square().sum(1), chunk)

    def __call__(self, queries: Tensor) -> tuple[Tensor, Tensor]:
        """Bounds (q, m) and pads (q,): a bound above `sketch.growth * t + pad` proves a squared distance above t."""
        sketched = self.sketch(queries, self.chunk).to(self.bank.dtype)
        rounding = (self.sketch.width + 8) * 2**-22  # of |a|² + |b|² - 2ab in the unit ball
        bounds = torch.addmm(self.norms, sketched, self.bank.T, alpha=-2)
        return bounds.float(), (self.sketch.pad + rounding - sketched.square().sum(1)).float()


def _search_block(queries: Tensor, bank: Tensor, k: int, memory: int) -> tuple[Tensor, Tensor]:
    """Squared distances and indices (q, k) in one block of the bank.

    A few leading coordinates settle most queries. Where too many candidates are left (data without leading axes), all
    coordinates are used.
    """
    (q, d), m = queries.shape, len(bank)
    squares = queries.new_empty(q, k, dtype=torch.float64)
    indices = queries.new_empty(q, k, dtype=torch.int64)
    loops = _compiled_loops() if bank.device.type == "cpu" and q * m * d > _TINY else None
    plans: list[tuple[int | None, int]] = [(None, m)]
    if loops is not None and d > 2 * _NEAREST_WIDTH and _sketch_pays(q, m):
        plans.insert(0, (_NEAREST_WIDTH, k + m // 32))
    piece = min(_CACHE, memory // 16)
    todo = torch.arange(q, device=queries.device)
    for width, budget in plans:
        if len(todo) == 0:
            break
        bounds = _Bounds.of(bank, queries, width, chunk=max(1, piece // (4 * d)))
        parts = todo.split(max(1, piece // (4 * m)))
        todo = todo[:0]
        for number, rows in enumerate(parts):
            some = queries[rows].to(bank.dtype)
            lower, pads = bounds(some)
            ceiling = (bounds.sketch.growth, pads)
            if loops is None:
                squares[rows], indices[rows] = _refine_plain(some, bank, lower, ceiling, k, memory // 4)
                continue
            squares[rows], indices[rows], settled = _refine(some, bank, lower, ceiling, k, budget, loops)
            todo = torch.cat((todo, rows[~settled]))
            if 2 * int(settled.sum()) < len(rows):  # the others will fare no better
                todo = torch.cat((todo, *parts[number + 1 :]))
                break
    return squares, indices


def _sketch_pays(q: int, m: int) -> bool:
    """Whether the products that leading coordinates save outweigh finding them, with a margin."""
    return q * m > 4 * _NEAREST_WIDTH * (m + 12_000)


def _refine(
    queries: Tensor,
    bank: Tensor,
    lower: Tensor,
    ceiling: tuple[float, Tensor],
    k: int,
    budget: int,
    loops: ModuleType,
) -> tuple[Tensor, Tensor, Tensor]:
    """Squares and indices (q, k) from lower bounds, and which queries `budget` exact distances sufficed for."""
    squares, indices = np.empty((len(queries), k)), np.empty((len(queries), k), np.int64)
    limits = (ceiling[0], ceiling[1].numpy())
    settled = loops.refine_nearest(queries.numpy(), bank.numpy(), lower.numpy(), limits, budget, squares, indices)
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


def _grow(points: Tensor, squares: Tensor, start: int, size: int, loops: ModuleType) -> Tensor:
    """The greedy selection in compiled loops, which look at few of the n * size distances."""
    n, d = points.shape
    chunk = max(1, _CACHE // (8 * d))
    sketch = Sketch.of(points, width=_CORESET_WIDTH, chunk=chunk, dtype=torch.float64)
    fine = sketch(points, chunk)
    coarse = fine.new_zeros(n, loops.COARSE)
    coarse[:, : sketch.width] = fine[:, : loops.COARSE]
    fine = fine[:, loops.COARSE :].contiguous()
    cloud = (points.numpy(), coarse.numpy(), fine.numpy(), sketch.growth, sketch.pad)
    squares[start] = 0
    chosen = np.full(size, start)
    lanes = np.full((-(-size // loops.LANES), loops.COARSE, loops.LANES), np.inf, np.float32)
    lanes[0, :, 0] = coarse[start].numpy()
    heap = np.argsort(-squares.numpy(), kind="stable")
    selection = (chosen, lanes, squares.numpy(), np.zeros(n, np.int64), heap)
    for first in range(1, size, 256):  # in parts, so that Ctrl-C is heard
        loops.grow_coreset(cloud, selection, first, min(first + 256, size))
    return torch.from_numpy(chosen)


def _grow_plain(points: Tensor, squares: Tensor, start: int, size: int) -> Tensor:
    """The greedy selection as its definition says, for few points or without a compiler."""
    chosen = [start]
    rows = max(1, _CACHE // (8 * points.shape[1]))
    while len(chosen) < size:
        centre = points[chosen[-1]].double()
        gaps = torch.cat([(part.double() - centre).square().sum(1) for part in points.split(rows)])
        squares = torch.minimum(squares, gaps)
        chosen.append(int(squares.numpy().argmax()))  # numpy promises the first of equals
    return torch.tensor(chosen)


def _compiled_loops() -> ModuleType | None:
    """The compiled loops, or None where numba cannot be imported."""
    try:
        from sparcal import _kernels
    except ImportError:
        return None
    return _kernels


def _check_neighbours(queries: Tensor, bank: Tensor, k: int) -> None:
    if queries.device != bank.device:
        raise DataError(f"nearest needs both inputs on one device, got {queries.device} and {bank.device}: move one.")
    _check_points("nearest: queries", queries)
    _check_points("nearest: bank", bank)
    if len(bank) == 0:
        raise DataError("nearest needs a bank of at least one row, got none: fit the detector on at least one image.")
    if queries.shape[1] != bank.shape[1]:
        raise ShapeError(
            f"nearest needs queries and bank of one width, got {queries.shape[1]} and {bank.shape[1]} columns: "
            "encode both with one encoder."
        )
    if not 1 <= k <= len(bank):
        raise DataError(f"nearest needs k between 1 and the {len(bank)} rows of the bank, got {k}: choose another k.")


def _check_coreset(points: Tensor, size: int, start: int, initial: Tensor | None) -> None:
    _check_points("greedy_coreset: points", points)
    n = len(points)
    if not 1 <= size <= n:
        raise DataError(f"greedy_coreset needs a size between 1 and the {n} points, got {size}: choose another size.")
    if not 0 <= start < n:
        raise DataError(f"greedy_coreset needs start between 0 and {n - 1}, got {start}: name one of the points.")
    if initial is not None and initial.shape != (n,):
        raise ShapeError(
            f"greedy_coreset needs initial as ({n},), one distance per point, got {tuple(initial.shape)}: "
            "reduce the distances to the starts to one per point."
        )
    if initial is not None and not bool((torch.isfinite(initial) & (initial >= 0)).all()):
        raise DataError("greedy_coreset needs initial distances that are finite and not negative: check the starts.")


def _check_points(name: str, points: Tensor) -> None:
    if points.ndim != 2 or points.shape[1] == 0 or not points.is_floating_point():
        raise ShapeError(
            f"{name} must be a floating tensor (rows, columns), got {tuple(points.shape)} {points.dtype}: "
            "flatten grids to one row per cell."
        )
    if len(points) == 0:
        return
    extremes = torch.stack(points.aminmax())  # NaN if any value is
    if not bool((extremes.abs() < 1e18).all()):  # squares must not overflow float32
        raise DataError(
            f"{name} must be finite and below 1e18 in size, got {float(extremes.abs().max()):g}: look for damaged images or an overflow."
        )
