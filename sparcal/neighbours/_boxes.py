"""The rows of a bank in boxes along their leading axes: a few comparisons rule out nearly all of them.

A k-d tree without its inner nodes: rows are halved along the axis in which they spread most, until LEAF_ROWS are left
together. All boxes of a bank are compared with a query at once, which suits a processor better than walking a tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sparcal.neighbours._sketch import Sketch

LEADING_AXES = 64  # boxes are along the first of them
_FIRST_SPLIT = 4  # slabs along the first axis, at least: halving alone would leave boxes half empty


@dataclass(frozen=True, eq=False)
class Boxes:
    """A bank whose rows were put into boxes; make one with `Boxes.of`.

    Args:
        chunk: rows sketched at a time.
        arrays: as `_kernel_types.BoxedRows` has them.
    """

    sketch: Sketch
    chunk: int
    arrays: tuple[Any, ...]

    @classmethod
    def of(
        cls, bank: Tensor, queries: Tensor | None, chunk: int, dtype: torch.dtype, *, like: Self | None = None
    ) -> Self:
        """For `queries`, or any that lie not much farther out than the bank.

        Args:
            dtype: of the products that make sketches.
            like: boxes of as many rows that lie much like these: axes, and who shares a box, are taken over. Where rows lie
                otherwise the search takes longer, and finds the same.
        """
        from sparcal.neighbours import _search_kernels as loops

        others, room = ((), 2.0) if queries is None else ((queries,), 1.0)
        width = min(LEADING_AXES, bank.shape[1] // 2)
        axes = None if like is None else like.sketch.axes
        sketch = Sketch.of(bank, *others, width=width, chunk=chunk, dtype=dtype, room=room, axes=axes)
        points = _at_least(loops.COARSE_AXES, sketch(bank, chunk).numpy())
        coarse, rows_each = points[:, : loops.COARSE_AXES], loops.LEAF_ROWS
        leaves, real = leaf_rows(coarse, rows_each) if like is None else like.members
        inside = coarse[leaves]  # (boxes, LEAF_ROWS, COARSE_AXES)
        lows, highs = (np.ascontiguousarray(ends(axis=1).T) for ends in (inside.min, inside.max))
        inside[~real] = np.inf
        lanes = np.ascontiguousarray(inside.transpose(0, 2, 1))
        fine = points[:, loops.COARSE_AXES :][leaves.ravel()]
        return cls(sketch, chunk, (lows, highs, lanes, fine, leaves.ravel(), sketch.growth, sketch.pad))

    @property
    def members(self) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """(boxes, LEAF_ROWS): the bank rows in each box, and which of them count; as `leaf_rows` gave them."""
        real = np.isfinite(self.arrays[2][:, 0])
        return self.arrays[4].reshape(real.shape), real

    def serve(self, queries: Tensor, dtype: torch.dtype) -> bool:
        """Whether the boxes, made before the queries were known, prove anything about them.

        Args:
            dtype: of products whose rounding can be relied on now.
        """
        assert self.sketch.axes is not None
        return self.sketch.axes.dtype in (dtype, torch.float64) and self.sketch.covers(queries, self.chunk)

    def search(self, queries: Tensor, bank: Tensor, budget: int, result: tuple[Tensor, Tensor]) -> Tensor:
        """Fill squared distances and indices (q, k); tells which queries were settled within the budget, (q,)."""
        from sparcal.neighbours import _search_kernels as loops

        squares, indices = (each.numpy() for each in result)
        sketches = _at_least(loops.COARSE_AXES, self.sketch(queries, self.chunk).numpy())
        settled = loops.search_boxes(queries.numpy(), bank.numpy(), sketches, self.arrays, budget, squares, indices)
        return torch.from_numpy(settled)


def leaf_rows(points: NDArray[np.float32], rows_each: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """(boxes, rows_each): numbers of points that lie together, and which of them count.

    Every point counts once. Boxes that would not be full hold some points a second time, which do not count.
    """
    m = len(points)
    leaves = -(-m // rows_each)
    halvings = max(0, int(np.log2(leaves / _FIRST_SPLIT)))
    slabs = -(-leaves // 2**halvings)
    spare = slabs * 2**halvings * rows_each - m
    number = np.concatenate([np.arange(m), np.linspace(0, m - 1, spare).astype(np.int64)])
    groups = np.argsort(points[number, 0], kind="stable").reshape(slabs, -1)
    for _ in range(halvings):
        values = points[number[groups]]  # (groups, size, axes)
        widest = values.var(axis=1).argmax(axis=1)[:, None, None]
        keys = np.take_along_axis(values, widest, axis=2)[..., 0]
        halves = np.argpartition(keys, keys.shape[1] // 2, axis=1)
        groups = np.take_along_axis(groups, halves, axis=1).reshape(2 * len(groups), -1)
    return number[groups], groups < m


def _at_least(axes: int, sketches: NDArray[np.float32]) -> NDArray[np.float32]:
    """The sketches with as many axes at least; a bank of a few rows has fewer."""
    missing = axes - sketches.shape[1]
    return np.pad(sketches, ((0, 0), (0, missing))) if missing > 0 else sketches
