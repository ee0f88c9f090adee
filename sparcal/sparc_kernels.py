"""The compiled inner loops of SPARC, one cell at a time; importing this file imports numba.

`sparcal.sparc` has the slow, obvious version of each. Rows are worked on four by four, so that every value that is loaded
is used four times; where a last four is not complete, its last row stands in for the missing ones.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sparcal.compiled import compiled
from sparcal.threads import in_order

Rows = NDArray[np.float32] | NDArray[np.float64]
Reals = NDArray[np.float32]
Doubles = NDArray[np.float64]

Whole = NDArray[np.int64]
FourRows = tuple[Rows, Rows, Rows, Rows]  # each (d,)

FOUR = 4  # rows that are worked on together
SUMMED_COLUMNS = 512  # that are summed at a time, so that the sums stay in the closest cache
BLOCK_BYTES = 2 * 2**20  # of features between two looks at them: about what a processor keeps close


def fill_subspaces(x: Reals, rank: int, tolerance: float, out: tuple[Reals, Reals, Whole], threads: int) -> None:
    """Mean, basis and kept rank of the disagreement at each cell, Eqs. 2-6, on `threads` threads.

    Args:
        x: (k, cells, d).
        tolerance: a direction is kept if it is longer than this share of the length of the raw features.
        out: mean (cells, d), basis (cells, rank, d), kept (cells,).
    """
    mean, basis, kept = out
    k, cells, d = x.shape
    step = max(1, BLOCK_BYTES // (x.itemsize * k * d))

    def fill(first: int) -> None:
        count = min(step, cells - first)
        gram = np.empty((count, _padded(k), _padded(k)))
        grams(x, first, gram)
        weights, kept[first : first + count] = _weights(gram[:, :k, :k], rank, tolerance)
        mixtures(x, first, weights, mean, basis)

    for _ in in_order(fill, range(0, cells, step), workers=threads):
        pass


def _weights(gram: Doubles, rank: int, tolerance: float) -> tuple[Doubles, Whole]:
    """(c, s4, k4): what each image contributes to the rows of the basis and to the mean; and the kept ranks (c,)."""
    k = gram.shape[-1]
    centring = np.eye(k) - 1 / k
    eigenvalues, left = np.linalg.eigh(centring @ gram @ centring)  # ascending
    length = np.sqrt(np.maximum(eigenvalues[:, ::-1][:, :rank], 0))
    keep = length > tolerance * np.sqrt(np.trace(gram, axis1=1, axis2=2))[:, None]
    inverse = np.divide(1, length, out=np.zeros_like(length), where=keep)
    weights = np.zeros((len(gram), _padded(rank + 1), _padded(k)))
    weights[:, :rank, :k] = inverse[..., None] * (left[..., ::-1][..., :rank].swapaxes(1, 2) @ centring)
    weights[:, rank, :k] = 1 / k
    return weights, keep.sum(axis=1)


def fill_projected(f: Reals, state: tuple[Reals, Reals, Reals], out: Reals, threads: int) -> None:
    """`remove_subspaces` of all cells, on `threads` threads."""
    cells = f.shape[1]
    step = -(-cells // (4 * threads))

    def fill(first: int) -> None:
        remove_subspaces(f, state, out, first, min(first + step, cells))

    for _ in in_order(fill, range(0, cells, step), workers=threads):
        pass


def _padded(rows: int) -> int:
    return -(-rows // FOUR) * FOUR


@compiled
def grams(x: Reals, first: int, gram: Doubles) -> None:
    """Fill `gram` (c, k4, k4) with the products of the k rows of the cells from `first` on, summed in float64.

    Args:
        x: (k, cells, d).
        gram: k4 is k rounded up to a multiple of four; what lies beyond k means nothing.
    """
    k = x.shape[0]
    tile = np.empty((FOUR, FOUR), np.float64)
    for c in range(gram.shape[0]):
        for i in range(0, k, FOUR):
            for j in range(i, k, FOUR):
                _products(_four_images(x, i, first + c), _four_images(x, j, first + c), tile)
                gram[c, i : i + FOUR, j : j + FOUR] = tile
                gram[c, j : j + FOUR, i : i + FOUR] = tile.T


@compiled
def mixtures(x: Reals, first: int, weights: Doubles, mean: Reals, basis: Reals) -> None:
    """Fill `basis` (cells, s, d) and `mean` (cells, d), from cell `first` on, with weighted sums of the k rows of each.

    Args:
        x: (k, cells, d).
        weights: (c, s4, k4), for the rows of the basis and then the mean, zero beyond them; s4 and k4 are multiples of four.
    """
    k, _, d = x.shape
    s = basis.shape[1]
    sums = np.empty((FOUR, SUMMED_COLUMNS), np.float64)
    for c in range(weights.shape[0]):
        for start in range(0, d, SUMMED_COLUMNS):
            stop = min(start + SUMMED_COLUMNS, d)
            for i in range(0, s + 1, FOUR):
                sums[:] = 0.0
                for j in range(0, k, FOUR):
                    r0, r1, r2, r3 = _four_images(x, j, first + c)
                    rows = r0[start:stop], r1[start:stop], r2[start:stop], r3[start:stop]
                    _add_mixtures(weights[c, i : i + FOUR, j : j + FOUR], rows, _four(sums, 0))
                for row in range(i, min(i + FOUR, s + 1)):
                    target = basis[first + c, row] if row < s else mean[first + c]
                    _copy(sums[row - i], target[start:stop])


@compiled
def remove_subspaces(f: Reals, state: tuple[Reals, Reals, Reals], out: Reals, first: int, last: int) -> None:
    """Fill `out` (n, cells, d) with f - V V^T (f - mu), Eq. 7, in the cells `first` to `last - 1`.

    Args:
        f: (n, cells, d).
        state: mean (cells, d), basis (cells, s, d), and what is added to every f: (cells, d), or (0, d) for nothing.
    """
    mean, basis, offset = state
    n, _, d = f.shape
    fours = (basis.shape[1] + FOUR - 1) // FOUR
    level = np.empty((fours, FOUR, FOUR), np.float32)  # V mu, the same for all images
    amount = np.empty((fours, FOUR, FOUR), np.float32)  # V f
    spare = np.empty((FOUR, d), np.float32)  # images beyond the last are worked on here
    for cell in range(first, last):
        v = basis[cell]
        for j in range(fours):
            _products((mean[cell], mean[cell], mean[cell], mean[cell]), _four(v, j * FOUR), level[j])
        for image in range(0, n, FOUR):
            images = _four_places(out, image, cell, spare)
            for row in range(FOUR):
                _copy(f[min(image + row, n - 1), cell], images[row])
                if offset.shape[0] > 0:
                    _add(offset[cell], images[row])
            for j in range(fours):
                _products(images, _four(v, j * FOUR), amount[j])
                amount[j] = level[j] - amount[j]
            amount[-1, :, basis.shape[1] - (fours - 1) * FOUR :] = 0
            for j in range(fours):
                _add_mixtures(amount[j], _four(v, j * FOUR), images)


@compiled
def remove_from_rows(f: Reals, starts: Whole, state: tuple[Reals, Reals, Reals], out: Reals) -> None:
    """Fill `out` (m, d) with what `remove_subspaces` makes of single rows that lie cell by cell.

    Args:
        f: (m, d).
        starts: (cells + 1,), the first row of each cell, and m.
    """
    mean, basis, offset = state
    for cell in range(mean.shape[0]):
        first, last = starts[cell], starts[cell + 1]
        if first < last:
            one = mean[cell : cell + 1], basis[cell : cell + 1], offset[cell : cell + 1]
            shape = last - first, 1, f.shape[1]
            remove_subspaces(f[first:last].reshape(shape), one, out[first:last].reshape(shape), 0, 1)


# The compiler vectorises rows that it knows to be contiguous: single ones, not those of a slice over several axes.
@compiled
def _four(rows: Rows, first: int) -> FourRows:
    last = rows.shape[0] - 1
    return rows[first], rows[min(first + 1, last)], rows[min(first + 2, last)], rows[min(first + 3, last)]


@compiled
def _four_images(f: Rows, first: int, cell: int) -> FourRows:
    last = f.shape[0] - 1
    second, third, fourth = min(first + 1, last), min(first + 2, last), min(first + 3, last)
    return f[first, cell], f[second, cell], f[third, cell], f[fourth, cell]


@compiled
def _four_places(out: Rows, first: int, cell: int, spare: Rows) -> FourRows:
    """Rows of four images to write into; those beyond the last image are `spare` ones."""
    count = out.shape[0] - first
    second = out[first + 1, cell] if count > 1 else spare[1]
    third = out[first + 2, cell] if count > 2 else spare[2]
    return out[first, cell], second, third, out[first + 3, cell] if count > 3 else spare[3]


@compiled
def _copy(source: Rows, target: Rows) -> None:
    for c in range(target.shape[0]):
        target[c] = source[c]


@compiled
def _add(source: Rows, target: Rows) -> None:
    for c in range(target.shape[0]):
        target[c] += source[c]


@compiled
def _products(a: FourRows, b: FourRows, out: Rows) -> None:
    """The product of every row of `a` with every row of `b`, summed in the dtype of `out` (4, 4).

    Written out, so that the sixteen sums stay in registers.
    """
    a0, a1, a2, a3 = a
    b0, b1, b2, b3 = b
    number = out.dtype.type
    s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = number(0)
    s20 = s21 = s22 = s23 = s30 = s31 = s32 = s33 = number(0)
    for c in range(a0.shape[0]):
        p, q, r, t = number(b0[c]), number(b1[c]), number(b2[c]), number(b3[c])
        u, v, w, x = number(a0[c]), number(a1[c]), number(a2[c]), number(a3[c])
        s00, s01, s02, s03 = s00 + u * p, s01 + u * q, s02 + u * r, s03 + u * t
        s10, s11, s12, s13 = s10 + v * p, s11 + v * q, s12 + v * r, s13 + v * t
        s20, s21, s22, s23 = s20 + w * p, s21 + w * q, s22 + w * r, s23 + w * t
        s30, s31, s32, s33 = s30 + x * p, s31 + x * q, s32 + x * r, s33 + x * t
    out[0, 0], out[0, 1], out[0, 2], out[0, 3] = s00, s01, s02, s03
    out[1, 0], out[1, 1], out[1, 2], out[1, 3] = s10, s11, s12, s13
    out[2, 0], out[2, 1], out[2, 2], out[2, 3] = s20, s21, s22, s23
    out[3, 0], out[3, 1], out[3, 2], out[3, 3] = s30, s31, s32, s33


@compiled
def _add_mixtures(weights: Rows, rows: FourRows, sums: FourRows) -> None:
    """Add to each of the four `sums` its mixture, `weights` (4, 4), of `rows`, in the dtype of the sums."""
    r0, r1, r2, r3 = rows
    s0, s1, s2, s3 = sums
    number = s0.dtype.type
    w00, w01, w02, w03 = weights[0, 0], weights[0, 1], weights[0, 2], weights[0, 3]
    w10, w11, w12, w13 = weights[1, 0], weights[1, 1], weights[1, 2], weights[1, 3]
    w20, w21, w22, w23 = weights[2, 0], weights[2, 1], weights[2, 2], weights[2, 3]
    w30, w31, w32, w33 = weights[3, 0], weights[3, 1], weights[3, 2], weights[3, 3]
    for c in range(r0.shape[0]):
        p, q, r, t = number(r0[c]), number(r1[c]), number(r2[c]), number(r3[c])
        s0[c] += (w00 * p + w01 * q) + (w02 * r + w03 * t)
        s1[c] += (w10 * p + w11 * q) + (w12 * r + w13 * t)
        s2[c] += (w20 * p + w21 * q) + (w22 * r + w23 * t)
        s3[c] += (w30 * p + w31 * q) + (w32 * r + w33 * t)
