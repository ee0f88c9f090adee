"""The compiled inner loops of the search; importing this file imports numba.

Every loop runs on one thread, without the interpreter lock. Squared distances that decide anything are sums
of float64 squares of the points as given; float32 sketches only prove that a distance need not be looked at.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sparcal.compiled import compiled
from sparcal.neighbours._distance_kernels import sketch_gap, square_gap
from sparcal.neighbours._kernel_types import (
    BoxedRows,
    Candidates,
    Ceiling,
    Indices,
    Nearest,
    Points,
    Proof,
    Sketches,
    Squares,
)

LEAF_ROWS = 32  # rows in a box, see `_boxes`
COARSE_AXES = 16  # leading axes that boxes are along
BLOCK_ROWS = 64  # bank rows whose lower bounds share one minimum


@compiled
def search_boxes(
    queries: Points, bank: Points, sketches: Sketches, boxed: BoxedRows, budget: int, squares: Squares, indices: Indices
) -> NDArray[np.bool_]:
    """Fill `squares` and `indices` (q, k); tells which queries were settled within `budget` exact distances.

    Args:
        sketches: (q, p), of the queries.
        budget: 16 times as many rows may be left by their sketches.
    """
    lows, _, leaves, _, _, growth, pad = boxed
    k = squares.shape[1]
    settled = np.zeros(queries.shape[0], np.bool_)
    bounds = np.empty(lows.shape[1], np.float32)
    gaps = np.empty(LEAF_ROWS, np.float32)
    room = min(16 * budget, bank.shape[0])
    left = np.empty(room, np.float32), np.empty(room, np.int64)
    for i in range(queries.shape[0]):
        best, order = squares[i], indices[i]
        best[:] = np.inf
        order[:] = bank.shape[0]
        nearest, query = (best, order), (queries[i], sketches[i])
        _box_gaps(sketches[i], boxed, bounds)
        first = int(np.argmin(bounds))
        _leaf_gaps(sketches[i], leaves[first], gaps)
        _visit_lowest_of_leaf(queries[i], bank, boxed, first, gaps, nearest)
        count, lowest = _scan_leaf(query, bank, boxed, first, gaps, (0, np.float32(np.inf)), left, nearest)
        for box in range(bounds.shape[0]):
            if box != first and bounds[box] <= best[k - 1] * growth + pad:
                if count < 0:  # too many are left
                    break
                _leaf_gaps(sketches[i], leaves[box], gaps)
                count, lowest = _scan_leaf(query, bank, boxed, box, gaps, (count, lowest), left, nearest)
        if count >= 0:
            rows = left[0][:count], left[1][:count]
            settled[i] = _visit(queries[i], bank, rows, (growth, pad), budget - k, nearest)
    return settled


@compiled
def _box_gaps(point: Sketches, boxed: BoxedRows, bounds: Sketches) -> None:
    """Fill `bounds` with the squared distances from a sketch to all boxes, along the coarse axes."""
    lows, highs = boxed[0], boxed[1]
    bounds[:] = 0
    for c in range(0, COARSE_AXES, 2):  # two at a time: half as many reads and writes of `bounds`
        x, low, high = point[c], lows[c], highs[c]
        y, least, most = point[c + 1], lows[c + 1], highs[c + 1]
        for box in range(bounds.shape[0]):
            gap = max(low[box] - x, x - high[box], np.float32(0))
            other = max(least[box] - y, y - most[box], np.float32(0))
            bounds[box] += gap * gap + other * other


@compiled
def _leaf_gaps(point: Sketches, leaf: Sketches, gaps: Sketches) -> None:
    """Fill `gaps` with the squared distances from a sketch to the rows in a box, along the coarse axes."""
    gaps[:] = 0
    for c in range(0, COARSE_AXES, 4):  # four at a time, for the same reason
        u, v, x, y = point[c], point[c + 1], point[c + 2], point[c + 3]
        for lane in range(LEAF_ROWS):
            first, second = u - leaf[c, lane], v - leaf[c + 1, lane]
            third, fourth = x - leaf[c + 2, lane], y - leaf[c + 3, lane]
            gaps[lane] += (first * first + second * second) + (third * third + fourth * fourth)


@compiled
def _visit_lowest_of_leaf(
    query: Points, bank: Points, boxed: BoxedRows, box: int, gaps: Sketches, nearest: Nearest
) -> None:
    """Compare with the k rows of a box that seem nearest, which makes the limit tight; they leave `gaps`."""
    best, order = nearest
    for _ in range(best.shape[0]):
        lane = np.argmin(gaps)
        j = boxed[4][box * LEAF_ROWS + lane]
        if gaps[lane] < np.inf:
            _insert(best, order, square_gap(query, bank[j], np.inf), j)
        gaps[lane] = np.inf


@compiled
def _scan_leaf(
    query: tuple[Points, Sketches],
    bank: Points,
    boxed: BoxedRows,
    box: int,
    gaps: Sketches,
    state: tuple[int, np.float32],
    left: Candidates,
    nearest: Nearest,
) -> tuple[int, np.float32]:
    """Note the rows of a box that no bound rules out in `left`; one that seems nearer than all before is visited at once.

    Args:
        state: how many rows are left so far, and the lowest bound of any.

    Returns:
        The state afterwards; a count of -1 where `left` has no room.
    """
    _, _, _, fine, rows, growth, pad = boxed
    best, order = nearest
    count, lowest = state
    last = best.shape[0] - 1
    limit = best[last] * growth + pad
    for lane in range(LEAF_ROWS):
        if gaps[lane] <= limit and gaps[lane] < np.inf:  # infinite: no row, or visited
            place = box * LEAF_ROWS + lane
            bound = gaps[lane] + sketch_gap(query[1][COARSE_AXES:], fine[place])
            if bound > limit:
                continue
            if bound < lowest:
                lowest = bound
                _insert(best, order, square_gap(query[0], bank[rows[place]], best[last]), rows[place])
                limit = best[last] * growth + pad
            elif count == left[0].shape[0]:
                return -1, lowest
            else:
                left[0][count] = bound
                left[1][count] = rows[place]
                count += 1
    return count, lowest


@compiled
def refine_nearest(queries: Points, bank: Points, proof: Proof, squares: Squares, indices: Indices) -> None:
    """Fill `squares` and `indices` (q, k); the bounds in `proof` are overwritten."""
    lower, growth, pads = proof
    k = squares.shape[1]
    m = bank.shape[0]
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
        count = _rows_within(row, minima, best[k - 1] * growth + pads[i], (bounds, left))
        _visit(queries[i], bank, (bounds[:count], left[:count]), (growth, pads[i]), m, (best, order))


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
def _visit_lowest(query: Points, bank: Points, row: Sketches, minima: Sketches, nearest: Nearest) -> None:
    """Compare with the k rows of the lowest bounds, which makes the limit tight; they leave `row` and `minima`."""
    best, order = nearest
    for _ in range(best.shape[0]):
        j = _lowest(row, minima)
        _insert(best, order, square_gap(query, bank[j], np.inf), j)
        row[j] = np.inf
        block = j // BLOCK_ROWS
        minima[block] = _smallest(row[block * BLOCK_ROWS : (block + 1) * BLOCK_ROWS])


@compiled
def _rows_within(row: Sketches, minima: Sketches, limit: float, out: Candidates) -> int:
    """How many rows have a bound within `limit`; these rows and bounds are filled into `out`."""
    bounds, left = out
    count = 0
    for block in range(minima.shape[0]):
        if minima[block] > limit:
            continue
        for j in range(block * BLOCK_ROWS, min(row.shape[0], (block + 1) * BLOCK_ROWS)):
            if row[j] <= limit:
                bounds[count] = row[j]
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
    if bounds.shape[0] > 0:  # the most promising row first: the limit becomes tighter still
        first = int(np.argmin(bounds))
        _insert(best, order, square_gap(query, bank[left[first]], best[last]), left[first])
        bounds[first] = np.inf
    limit = best[last] * growth + pad
    for c in range(bounds.shape[0]):
        # Nothing beats a square of 0, and among equals the lower row wins: later rows cannot help.
        if bounds[c] <= limit and bounds[c] < np.inf and (best[last] > 0 or left[c] < order[last]):
            _insert(best, order, square_gap(query, bank[left[c]], best[last]), left[c])
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
