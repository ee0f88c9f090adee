"""The greedy coreset: each member is the point farthest from all members before it.

It is exact: distances that decide are float64 sums of squared differences of the points as given, and everything
faster only rules points out, with an allowance for its own rounding. Equal distances go to the lower index, and
distances are equal if their float64 sums are: a loop in float32 calls more of them equal, may then choose in another
order, and covers as well.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np
import torch
from torch import Tensor

from sparcal.errors import DataError, ShapeError
from sparcal.neighbours._points import CACHE, check_points, loops_for
from sparcal.neighbours._sketch import Sketch
from sparcal.settings import instance_of, whole_number

_WIDTH = 96  # leading axes that settle nearly all comparisons


def greedy_coreset(points: Tensor, size: int, *, start: int = 0, initial: Tensor | None = None) -> Tensor:
    """Indices of `size` points, each the farthest from those before it, in order of selection.

    Args:
        points: `(n, d)`.
        start: the first member; ignored if `initial` is given.
        initial: `(n,)` distances that stand for points outside the coreset; selection then begins at the largest.

    The loops run on the CPU, on one thread, so that the indices are the same for points on any device; they need
    about `450 * n + 400 * size` bytes besides the points. Once every point coincides with a member, index 0 is repeated.

    >>> greedy_coreset(torch.tensor([[0.0], [1.0], [9.0], [10.0]]), 3)  # the farthest from those before
    tensor([0, 3, 1])
    """
    _check_coreset(points, size, start, initial)
    rows = points.detach().to("cpu", torch.promote_types(points.dtype, torch.float32)).contiguous()
    squares = torch.full((len(rows),), torch.inf, dtype=torch.float64)
    if initial is not None:
        squares = initial.detach().to("cpu", torch.float64).square()
        start = int(squares.numpy().argmax())
    loops = loops_for("coreset", rows.numel() * size)
    members = _grow_plain(rows, squares, start, size) if loops is None else _grow(rows, squares, start, size, loops)
    return members.to(points.device)


def _grow(points: Tensor, squares: Tensor, start: int, size: int, loops: ModuleType) -> Tensor:
    """The greedy selection in compiled loops, which look at few of the n * size distances."""
    n, d = points.shape
    chunk = max(1, CACHE // (32 * d))
    sketch = Sketch.of(points, width=_WIDTH, chunk=chunk, dtype=torch.float64)
    coarse, fine = (stage.numpy() for stage in sketch.staged(points, chunk, loops.COARSE - 1))
    pad = sketch.staged_pad + (loops.COARSE + 8) * 2**-22  # the rounding of the product of the coarse stage
    cloud = (points.numpy(), coarse, fine, sketch.growth, pad)
    squares[start] = 0
    members = np.full(size, start)
    lanes = np.zeros((-(-size // loops.LANES), loops.COARSE + 1, loops.LANES), np.float32)
    lanes[:, -1] = np.inf
    lanes[0, :, 0] = coarse[start]
    kept = np.empty((size, fine.shape[1]), np.float32)
    kept[0] = fine[start]
    heap = np.argsort(-squares.numpy(), kind="stable")
    selection = (members, lanes, kept, squares.numpy(), np.zeros(n, np.int64), heap)
    for first in range(1, size, 256):  # in parts, so that Ctrl-C is heard
        loops.grow_coreset(cloud, selection, first, min(first + 256, size))
    return torch.from_numpy(members)


def _grow_plain(points: Tensor, squares: Tensor, start: int, size: int) -> Tensor:
    """The greedy selection as its definition says, for few points or without a compiler."""
    members = [start]
    rows = max(1, CACHE // (8 * points.shape[1]))
    while len(members) < size:
        centre = points[members[-1]].double()
        gaps = torch.cat([(part.double() - centre).square().sum(1) for part in points.split(rows)])
        squares = torch.minimum(squares, gaps)
        members.append(int(squares.numpy().argmax()))  # numpy promises the first of equals
    return torch.tensor(members)


def _check_coreset(points: Tensor, size: int, start: int, initial: Tensor | None) -> None:
    check_points("greedy_coreset: points", points)
    n = len(points)
    whole_number(size, "greedy_coreset's size")
    whole_number(start, "greedy_coreset's start")
    instance_of(initial, "greedy_coreset's initial", Tensor, optional=True)
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
