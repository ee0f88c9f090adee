"""The compiled inner loops of search and coreset; importing this file imports numba.

Every loop runs on one thread, without the interpreter lock. Squared distances that decide anything are sums
of float64 squares of the points as given; float32 sketches only prove that a distance need not be looked at.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sparcal.neighbours._compiled import compiled
from sparcal.neighbours._kernel_types import (
    Candidates,
    Ceiling,
    Cloud,
    Indices,
    Nearest,
    Points,
    Proof,
    Selection,
    Sketches,
    Squares,
)

COARSE = 32  # sketch coordinates that are compared first, four at a time
LANES = 128  # centres that are compared with a point at once
STRIDE = 256  # coordinates between two looks at whether a sum is already too large
BLOCK_ROWS = 64  # bank rows whose lower bounds share one minimum


@compiled
def _square_gap(a: Points, b: Points, limit: float) -> float:
    """Squared distance in float64, or some number above `limit` once it is known to exceed it."""
    total = 0.0
    for first in range(0, a.shape[0], STRIDE):
        total += _float64_square_gap(a[first : first + STRIDE], b[first : first + STRIDE])
        if total > limit:
            break
    return total


# Inner loops count from 0 to the length of an array: the compiler vectorises other forms badly.
@compiled
def _float64_square_gap(a: Points, b: Points) -> float:
    total = 0.0
    for c in range(a.shape[0]):
        gap = np.float64(a[c]) - np.float64(b[c])
        total += gap * gap
    return total


@compiled
def _sketch_gap(a: Sketches, b: Sketches) -> np.float32:
    total = np.float32(0)
    for c in range(a.shape[0]):
        gap = a[c] - b[c]
        total += gap * gap
    return total


@compiled
def _lane_gaps(point: Sketches, lanes: Sketches, gaps: Sketches) -> None:
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


@compiled
def _lanes_within(gaps: Sketches, first: int, last: int, limit: np.float32, where: Indices) -> int:
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


@compiled
def grow_coreset(cloud: Cloud, selection: Selection, first: int, last: int) -> None:
    """Choose members `first` to `last - 1`, each the point farthest from all before it.

    Distances to the members only fall, so a point's distance to some of them bounds its distance to all. Only the
    point on top of the heap is brought up to date: if it stays on top it is the farthest, else it sinks and waits. Most points
    lie near an early member and are never looked at again.
    """
    _, coarse, fine, _, _ = cloud
    members, lanes, kept, squares, _, heap = selection
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
        members[new] = top
        lanes[new // LANES, :, new % LANES] = coarse[top]
        kept[new] = fine[top]
        squares[top] = 0.0
        _sink(heap, squares)


@compiled
def _look(cloud: Cloud, selection: Selection, x: int, rival: int, stop: int, gaps: Sketches, where: Indices) -> None:
    """Lower the square of point `x` by the members before `stop`, until `rival` precedes it."""
    points, coarse, fine, growth, pad = cloud
    members, lanes, kept, squares, compared, _ = selection
    own = coarse[x]
    while compared[x] < stop and _precedes(squares, x, rival):
        block = compared[x] // LANES
        before = block * LANES
        end = min(stop, before + LANES)
        limit = np.float32(squares[x] * growth + pad - own[COARSE])
        _lane_gaps(own, lanes[block], gaps)
        for place in range(_lanes_within(gaps, compared[x] - before, end - before, limit, where)):
            lane = where[place]
            i = before + lane
            length = own[COARSE - 1] - lanes[block, COARSE - 1, lane]  # of the rest, which the fine stage replaces
            if gaps[lane] <= limit and gaps[lane] - length * length + _sketch_gap(fine[x], kept[i]) <= limit:
                square = _square_gap(points[x], points[members[i]], squares[x])
                if square < squares[x]:
                    squares[x] = square
                    limit = np.float32(square * growth + pad - own[COARSE])
        compared[x] = end


@compiled
def _precedes(squares: Squares, a: int, b: int) -> bool:
    return bool(squares[a] > squares[b] or (squares[a] == squares[b] and a < b))


@compiled
def _sink(heap: Indices, squares: Squares) -> None:
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


@compiled
def _smallest(values: Sketches) -> np.float32:
    smallest = np.float32(np.inf)
    for c in range(values.shape[0]):
        smallest = min(smallest, values[c])
    return smallest


@compiled
def _block_minima(row: Sketches, lanes: Sketches, minima: Sketches) -> None:
    """The minimum of each BLOCK_ROWS of `row`; `lanes` (BLOCK_ROWS / 4,) is room to work in."""
    quarter = lanes.shape[0]
    whole = row.shape[0] // BLOCK_ROWS
    for block in range(whole):
        values = row[block * BLOCK_ROWS : (block + 1) * BLOCK_ROWS]
        for lane in range(lanes.shape[0]):  # a plain minimum over all would not be vectorised
            first = min(values[lane], values[lane + quarter])
            second = min(values[lane + 2 * quarter], values[lane + 3 * quarter])
            lanes[lane] = min(first, second)
        minima[block] = _smallest(lanes)
    if whole < minima.shape[0]:
        minima[whole] = _smallest(row[whole * BLOCK_ROWS :])


@compiled
def refine_nearest(
    queries: Points, bank: Points, proof: Proof, budget: int, squares: Squares, indices: Indices
) -> NDArray[np.bool_]:
    """Fill `squares` and `indices` (q, k); tells which queries were settled within `budget` exact distances.

    The bounds in `proof` are overwritten.
    """
    lower, fine, fine_bank, growth, pads = proof
    k = squares.shape[1]
    m = bank.shape[0]
    settled = np.ones(queries.shape[0], np.bool_)
    minima = np.empty((m + BLOCK_ROWS - 1) // BLOCK_ROWS, np.float32)
    lanes = np.empty(BLOCK_ROWS // 4, np.float32)
    bounds = np.empty(m, np.float32)
    left = np.empty(m, np.int64)
    for i in range(queries.shape[0]):
        row, best, order = lower[i], squares[i], indices[i]
        best[:] = np.inf
        order[:] = m
        _block_minima(row, lanes, minima)
        _visit_lowest(queries[i], bank, row, minima, (best, order))
        limit = best[k - 1] * growth + pads[i]
        count = _rows_within(row, minima, fine[i], fine_bank, limit, (bounds, left))
        rows = bounds[:count], left[:count]
        settled[i] = _visit(queries[i], bank, rows, (growth, pads[i]), budget - k, (best, order))
    return settled


@compiled
def _visit_lowest(query: Points, bank: Points, row: Sketches, minima: Sketches, nearest: Nearest) -> None:
    """Compare with the k rows of the lowest bounds, which makes the limit tight; they leave `row` and `minima`."""
    best, order = nearest
    for _ in range(best.shape[0]):
        j = _lowest(row, minima)
        _insert(best, order, _square_gap(query, bank[j], np.inf), j)
        row[j] = np.inf
        block = j // BLOCK_ROWS
        minima[block] = _smallest(row[block * BLOCK_ROWS : (block + 1) * BLOCK_ROWS])


@compiled
def _rows_within(row: Sketches, minima: Sketches, fine: Sketches, bank: Sketches, limit: float, out: Candidates) -> int:
    """How many rows have a bound within `limit` by both stages; these rows and bounds are filled into `out`."""
    bounds, left = out
    count = 0
    for block in range(minima.shape[0]):
        if minima[block] > limit:
            continue
        for j in range(block * BLOCK_ROWS, min(row.shape[0], (block + 1) * BLOCK_ROWS)):
            if row[j] <= limit:
                bound = row[j] + _sketch_gap(fine, bank[j])
                if bound <= limit:
                    bounds[count] = bound
                    left[count] = j
                    count += 1
    return count


@compiled
def _visit(query: Points, bank: Points, rows: Candidates, ceiling: Ceiling, budget: int, nearest: Nearest) -> bool:
    """Compare with the rows that are left, the most promising first; False where `budget` distances do not suffice."""
    bounds, left = rows
    growth, pad = ceiling
    best, order = nearest
    last = best.shape[0] - 1
    visited = 0
    if bounds.shape[0] > 0:  # by both stages the most promising row: the limit becomes tighter still
        first = np.argmin(bounds)
        _insert(best, order, _square_gap(query, bank[left[first]], best[last]), left[first])
        bounds[first] = np.inf
    limit = best[last] * growth + pad
    for c in range(bounds.shape[0]):
        # Nothing beats a square of 0, and among equals the lower row wins: later rows cannot help.
        if bounds[c] <= limit and (best[last] > 0 or left[c] < order[last]):
            _insert(best, order, _square_gap(query, bank[left[c]], best[last]), left[c])
            limit = best[last] * growth + pad
            visited += 1
            if visited > budget:
                return False
    return True


@compiled
def _lowest(row: Sketches, minima: Sketches) -> int:
    """Where `row` is smallest, given the minima of its blocks."""
    block = np.argmin(minima)
    first = block * BLOCK_ROWS
    return int(first + np.argmin(row[first : first + BLOCK_ROWS]))


@compiled
def _insert(best: Squares, order: Indices, square: float, j: int) -> None:
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
