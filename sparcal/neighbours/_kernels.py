"""Compiled inner loops of `sparcal.neighbours.search`; importing this file imports numba.

Every loop runs on one thread, without the interpreter lock. Squared distances that decide anything are sums
of float64 squares of the points as given; float32 sketches only prove that a distance need not be looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

Loop = TypeVar("Loop", bound=Callable[..., Any])
Floats = NDArray[np.float32] | NDArray[np.float64]

COARSE = 32  # sketch coordinates that are compared first, four at a time
LANES = 128  # centres that are compared with a point at once
STRIDE = 256  # coordinates between two looks at whether a sum is already too large
BLOCK = 64  # bank rows whose lower bounds share one minimum


# Plain tuples, not classes: numba's files on disk would name a class of this module, and a later version that renames
# it could not read them.

# points (n, d); their sketches in two stages (n, COARSE + 1) and (n, p), see `Sketch.staged`; growth and pad: a squared
# sketch distance above growth * t + pad proves a true one above t.
Cloud = tuple[Floats, NDArray[np.float32], NDArray[np.float32], float, float]

# What rules bank rows out: lower bounds (q, m); fine coordinates of the queries (q, p) and of the bank (m, p); growth;
# pads (q,). A bound above growth * t + pad proves a squared distance above t, and so does one with the squared distance of
# the fine coordinates added.
Proof = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32], float, NDArray[np.float32]]

# A greedy selection under way: the chosen (size,); their sketches, (blocks, COARSE + 1, LANES), of infinite norm where
# none is yet, and (size, p); per point the squared distance to the nearest of the chosen it was compared with, and how many
# that is; a heap of the points with the largest square on top, the lower index first among equals.
Selection = tuple[
    NDArray[np.int64],
    NDArray[np.float32],
    NDArray[np.float32],
    NDArray[np.float64],
    NDArray[np.int64],
    NDArray[np.int64],
]


def _compiled(loop: Loop) -> Loop:
    """`loop` as machine code, kept on disk where the installation can be written."""
    sums = {"reassoc", "contract", "nsz"}  # sums may be reordered, which vectorises them; infinities keep their meaning
    try:
        return cast(Loop, numba.njit(cache=True, nogil=True, fastmath=sums)(loop))
    except RuntimeError:  # no directory to cache in
        return cast(Loop, numba.njit(nogil=True, fastmath=sums)(loop))


@_compiled
def _square_gap(a: Floats, b: Floats, limit: float) -> float:
    """Squared distance in float64, or some number above `limit` once it is known to exceed it."""
    total = 0.0
    for first in range(0, a.shape[0], STRIDE):
        total += _float64_square_gap(a[first : first + STRIDE], b[first : first + STRIDE])
        if total > limit:
            break
    return total


# Inner loops count from 0 to the length of an array: the compiler vectorises other forms badly.
@_compiled
def _float64_square_gap(a: Floats, b: Floats) -> float:
    total = 0.0
    for c in range(a.shape[0]):
        gap = np.float64(a[c]) - np.float64(b[c])
        total += gap * gap
    return total


@_compiled
def _sketch_gap(a: NDArray[np.float32], b: NDArray[np.float32]) -> np.float32:
    total = np.float32(0)
    for c in range(a.shape[0]):
        gap = a[c] - b[c]
        total += gap * gap
    return total


@_compiled
def _lane_gaps(point: NDArray[np.float32], lanes: NDArray[np.float32], gaps: NDArray[np.float32]) -> None:
    """Fill `gaps` with the squared sketch distances to LANES centres, less the squared norm of the point."""
    for lane in range(LANES):
        gaps[lane] = lanes[COARSE, lane]
    double = np.float32(-2)  # a plain -2 would make all of it float64
    for c in range(0, COARSE, 4):
        u, v, w, x = double * point[c], double * point[c + 1], double * point[c + 2], double * point[c + 3]
        for lane in range(LANES):
            gaps[lane] += (u * lanes[c, lane] + v * lanes[c + 1, lane]) + (
                w * lanes[c + 2, lane] + x * lanes[c + 3, lane]
            )


@_compiled
def _lanes_within(gaps: NDArray[np.float32], first: int, last: int, limit: np.float32, where: NDArray[np.int64]) -> int:
    """How many of the lanes `first` to `last - 1` have a gap within `limit`; `where` tells which, the smallest first."""
    count = 0
    for lane in range(first, last):  # no branch: which lanes pass cannot be foreseen
        where[count] = lane
        count += gaps[lane] <= limit
    smallest = 0
    for place in range(count):
        if gaps[where[place]] < gaps[where[smallest]]:
            smallest = place
    where[0], where[smallest] = where[smallest], where[0]
    return count


@_compiled
def grow_coreset(cloud: Cloud, selection: Selection, first: int, last: int) -> None:
    """Choose members `first` to `last - 1`, each the point farthest from all before it.

    Distances to the chosen only fall, so a point's distance to some of them bounds its distance to all. Only the
    point on top of the heap is brought up to date: if it stays on top it is the farthest, else it sinks and waits. Most points
    lie near an early member and are never looked at again.
    """
    _, coarse, fine, _, _ = cloud
    chosen, lanes, kept, squares, _, heap = selection
    gaps = np.empty(LANES, np.float32)
    where = np.empty(LANES, np.int64)
    for new in range(first, last):
        while True:
            top = heap[0]
            rival = heap[1]
            if heap.shape[0] > 2 and _precedes(squares, heap[2], rival):
                rival = heap[2]
            _look(cloud, selection, top, rival, new, gaps, where)
            if _precedes(squares, top, rival):
                break
            _sink(heap, squares)
        chosen[new] = top
        lanes[new // LANES, :, new % LANES] = coarse[top]
        kept[new] = fine[top]
        squares[top] = 0.0
        _sink(heap, squares)


@_compiled
def _look(
    cloud: Cloud,
    selection: Selection,
    x: int,
    rival: int,
    stop: int,
    gaps: NDArray[np.float32],
    where: NDArray[np.int64],
) -> None:
    """Lower the square of point `x` by the chosen ones before `stop`, until `rival` precedes it."""
    points, coarse, fine, growth, pad = cloud
    chosen, lanes, kept, squares, seen, _ = selection
    own = coarse[x]
    while seen[x] < stop and _precedes(squares, x, rival):
        block = seen[x] // LANES
        before = block * LANES
        end = min(stop, before + LANES)
        limit = np.float32(squares[x] * growth + pad - own[COARSE])
        _lane_gaps(own, lanes[block], gaps)
        for place in range(_lanes_within(gaps, seen[x] - before, end - before, limit, where)):
            lane = where[place]
            i = before + lane
            length = own[COARSE - 1] - lanes[block, COARSE - 1, lane]  # of the rest, which the fine stage replaces
            if gaps[lane] <= limit and gaps[lane] - length * length + _sketch_gap(fine[x], kept[i]) <= limit:
                square = _square_gap(points[x], points[chosen[i]], squares[x])
                if square < squares[x]:
                    squares[x] = square
                    limit = np.float32(square * growth + pad - own[COARSE])
        seen[x] = end


@_compiled
def _precedes(squares: NDArray[np.float64], a: int, b: int) -> bool:
    return bool(squares[a] > squares[b] or (squares[a] == squares[b] and a < b))


@_compiled
def _sink(heap: NDArray[np.int64], squares: NDArray[np.float64]) -> None:
    """Restore the order of the heap after the square of its top fell."""
    top = heap[0]
    place = 0
    while 2 * place + 1 < heap.shape[0]:
        child = 2 * place + 1
        if child + 1 < heap.shape[0] and _precedes(squares, heap[child + 1], heap[child]):
            child += 1
        if _precedes(squares, top, heap[child]):
            break
        heap[place] = heap[child]
        place = child
    heap[place] = top


@_compiled
def _smallest(values: NDArray[np.float32]) -> np.float32:
    smallest = np.float32(np.inf)
    for c in range(values.shape[0]):
        smallest = min(smallest, values[c])
    return smallest


@_compiled
def _block_minima(row: NDArray[np.float32], lanes: NDArray[np.float32], minima: NDArray[np.float32]) -> None:
    """The minimum of each BLOCK of `row`; `lanes` (BLOCK / 4,) is room to work in."""
    quarter = lanes.shape[0]
    whole = row.shape[0] // BLOCK
    for block in range(whole):
        values = row[block * BLOCK : (block + 1) * BLOCK]
        for lane in range(lanes.shape[0]):  # a plain minimum over all would not be vectorised
            first = min(values[lane], values[lane + quarter])
            second = min(values[lane + 2 * quarter], values[lane + 3 * quarter])
            lanes[lane] = min(first, second)
        minima[block] = _smallest(lanes)
    if whole < minima.shape[0]:
        minima[whole] = _smallest(row[whole * BLOCK :])


@_compiled
def refine_nearest(
    queries: Floats,
    bank: Floats,
    proof: Proof,
    budget: int,
    squares: NDArray[np.float64],
    indices: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Fill `squares` and `indices` (q, k); says which queries were settled within `budget` exact distances.

    The bounds in `proof` are overwritten.
    """
    lower, fine, fine_bank, growth, pads = proof
    k = squares.shape[1]
    m = bank.shape[0]
    settled = np.ones(queries.shape[0], np.bool_)
    minima = np.empty((m + BLOCK - 1) // BLOCK, np.float32)
    lanes = np.empty(BLOCK // 4, np.float32)
    bounds = np.empty(m, np.float32)
    left = np.empty(m, np.int64)
    for i in range(queries.shape[0]):
        row = lower[i]
        best = squares[i]
        order = indices[i]
        best[:] = np.inf
        order[:] = m
        _block_minima(row, lanes, minima)
        for _ in range(k):  # the k most promising rows first: they make the limit tight
            j = _lowest(row, minima)
            _insert(best, order, _square_gap(queries[i], bank[j], np.inf), j)
            row[j] = np.inf
            block = j // BLOCK
            minima[block] = _smallest(row[block * BLOCK : (block + 1) * BLOCK])
        limit = best[k - 1] * growth + pads[i]
        count = 0
        for block in range(minima.shape[0]):
            if minima[block] > limit:
                continue
            for j in range(block * BLOCK, min(m, (block + 1) * BLOCK)):
                if row[j] <= limit:
                    bound = row[j] + _sketch_gap(fine[i], fine_bank[j])
                    if bound <= limit:
                        bounds[count] = bound
                        left[count] = j
                        count += 1
        visited = k
        if count > 0:  # by both stages the most promising row: the limit becomes tighter still
            first = np.argmin(bounds[:count])
            _insert(best, order, _square_gap(queries[i], bank[left[first]], best[k - 1]), left[first])
            bounds[first] = np.inf
            limit = best[k - 1] * growth + pads[i]
        for c in range(count):
            # Nothing beats a square of 0, and among equals the lower row wins: later rows cannot help.
            if bounds[c] <= limit and (best[k - 1] > 0 or left[c] < order[k - 1]):
                _insert(best, order, _square_gap(queries[i], bank[left[c]], best[k - 1]), left[c])
                limit = best[k - 1] * growth + pads[i]
                visited += 1
                if visited > budget:
                    settled[i] = False
                    break
    return settled


@_compiled
def _lowest(row: NDArray[np.float32], minima: NDArray[np.float32]) -> int:
    """Where `row` is smallest, given the minima of its blocks."""
    block = np.argmin(minima)
    first = block * BLOCK
    return int(first + np.argmin(row[first : first + BLOCK]))


@_compiled
def _insert(best: NDArray[np.float64], order: NDArray[np.int64], square: float, j: int) -> None:
    """Put row `j` in its place among the k nearest, by distance and then by row; no place, no change."""
    place = best.shape[0]
    while place > 0 and (square < best[place - 1] or (square == best[place - 1] and j < order[place - 1])):
        place -= 1
    for later in range(best.shape[0] - 1, place, -1):
        best[later] = best[later - 1]
        order[later] = order[later - 1]
    if place < best.shape[0]:
        best[place] = square
        order[place] = j
