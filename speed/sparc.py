"""SPARC's fit against a batched SVD, and its application against a copy of the same memory.

Features are Gaussian: the cost does not depend on their values. k = 8, 1536 channels. Each side of a row runs with one
thread and with one per core, and the better of the two counts; a note gives the ratio with one thread each.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from sparcal.sparc import CHUNK_BYTES, project_out, subspace
from speed.measure import Goal, Row, Work, fastest

K, CHANNELS = 8, 1536
TOLERANCE = 1e-5
COMPARED = 16  # cells whose d x d projectors are compared


def features(n: int, side: int, seed: int) -> Tensor:
    return torch.randn(n, side, side, CHANNELS, generator=torch.Generator().manual_seed(seed)).add_(1)


def some_cells(basis: Tensor) -> np.ndarray:
    """(16, k - 1, d): the bases of some cells spread over the grid."""
    cells = basis.reshape(-1, K - 1, CHANNELS)
    return cells[:: len(cells) // COMPARED][:COMPARED].numpy()


def fit_ours(side: int) -> Work:
    x = features(K, side, 0)
    subspace(x, K - 1)  # the first call of a process sets up torch, and loads or compiles the loops
    return Work(lambda: subspace(x, K - 1)[1], some_cells)


def fit_svd(side: int) -> Work:
    x = features(K, side, 0)

    def run() -> Tensor:
        cells = x.flatten(1, 2).transpose(0, 1)  # (c, k, d)
        v: Tensor = torch.linalg.svd(cells - cells.mean(dim=1, keepdim=True), full_matrices=False).Vh
        return v[:, : K - 1]

    return Work(run, some_cells)


def apply_ours(side: int, n: int) -> Work:
    mean, basis, _ = subspace(features(K, side, 0), K - 1)
    f = features(n, side, 1)
    project_out(f[:1], mean, basis)  # loads or compiles the loops
    return Work(lambda: project_out(f, mean, basis), some_images)


def apply_clone(side: int, n: int) -> Work:
    f = features(n, side, 1)
    return Work(f.clone, some_images)


def some_images(f: Tensor) -> np.ndarray:
    return f[::16].numpy()


def fit_row(side: int) -> Row:
    mine, peer = fastest(fit_ours, side, repeats=5), fastest(fit_svd, side, repeats=3)
    ours, svd = mine.cost, peer.cost
    one = mine.alone.cpu_s, peer.alone.cpu_s
    v, w = mine.outcome.astype(float), peer.outcome.astype(float)
    difference = float(np.abs(v.swapaxes(1, 2) @ v - w.swapaxes(1, 2) @ w).max())
    return Row(
        path=f"SPARC fit, {side} x {side} x {CHANNELS}, k = {K}",
        peer="torch.linalg.svd, batched",
        ours=ours,
        theirs=svd,
        measured=svd.wall_s / ours.wall_s,
        goal=Goal(10, "faster"),
        agree=difference <= TOLERANCE,
        agreement=f"projectors of {COMPARED} cells differ by {difference:.0e} at most",
        threads=f"{mine.threads}, {peer.threads}",
        note=f"With one thread each: {one[0] * 1e3:.0f} ms of CPU against {one[1] * 1e3:.0f} ms, {one[1] / one[0]:.1f}x.",
        short="The fit reads its input twice, the second time from the cache, and writes the basis, which is as large. Half of "
        "its time are the weighted sums in float64 that make the basis, a quarter LAPACK's k x k eigenproblems, one per "
        "cell, and a fifth the products. The peer's time differs more between machines than ours.",
    )


def apply_rows(side: int, n: int) -> list[Row]:
    mine, copied = fastest(apply_ours, side, n), fastest(apply_clone, side, n)
    ours, clone, out, f = mine.cost, copied.cost, mine.outcome, copied.outcome
    mean, basis, _ = subspace(features(K, side, 0), K - 1)
    f64, mean64, v = torch.from_numpy(f).double(), mean.double(), basis.double()
    amount = torch.einsum("hwsd,nhwd->nhws", v, f64 - mean64)
    difference = float((f64 - torch.einsum("hwsd,nhws->nhwd", v, amount) - torch.from_numpy(out)).abs().max())
    path = f"SPARC apply, {n} images of {side} x {side} x {CHANNELS}"
    time = Row(
        path=path,
        peer="clone()",
        ours=ours,
        theirs=clone,
        measured=ours.wall_s / clone.wall_s,
        goal=Goal(2, "of its time", at_most=True),
        agree=difference <= TOLERANCE,
        agreement=f"Eq. 7 in float64: largest difference {difference:.0e}",
        threads=f"{mine.threads}, {copied.threads}",
        note="clone() writes to small pages; ours asks for large ones, which are filled at less cost.",
        short="Every image is read and written once; the products of its cells with k - 1 directions are what is left.",
    )
    result = 4 * n * side * side * CHANNELS / 2**20
    memory = replace(
        time,
        path=f"{path}: memory beside the result",
        peer="one chunk",
        theirs=None,
        measured=max((ours.extra_mb or 0) - result, 0),
        goal=Goal(CHUNK_BYTES / 2**20, "", " MB", at_most=True),
        note=f"The rise of the peak, less the {result:.0f} MB of the result.",
    )
    return [time, memory]


def rows(*, quick: bool = False) -> list[Row]:
    """The rows of the speed table."""
    if quick:
        return [fit_row(8), *apply_rows(8, 16)]
    return [fit_row(32), fit_row(48), *apply_rows(32, 64)]
