"""The compiled inner loops of the coreset; importing this file imports numba.

Every loop runs on one thread, without the interpreter lock. Squared distances that decide anything are sums
of float64 squares of the points as given; float32 sketches only prove that a distance need not be looked at.
"""

from __future__ import annotations

import numpy as np

from sparcal.compiled import compiled
from sparcal.neighbours._distance_kernels import sketch_gap, square_gap
from sparcal.neighbours._kernel_types import Cloud, Indices, Selection, Sketches, Squares

COARSE = 24  # sketch coordinates that are compared first, four at a time
LANES = 128  # centres that are compared with a point at once


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
        for c in range(coarse.shape[1]):  # assigning slices takes the compiler seconds
            lanes[new // LANES, c, new % LANES] = coarse[top, c]
        for c in range(fine.shape[1]):
            kept[new, c] = fine[top, c]
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
            if gaps[lane] <= limit and gaps[lane] - length * length + sketch_gap(fine[x], kept[i]) <= limit:
                square = square_gap(points[x], points[members[i]], squares[x])
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
