"""PaDiM's fit and score against the textbook route: a covariance per cell, its inverse, and the quadratic form.

100 normal images of 56 x 56 cells x 550 channels are fitted, and 100 others scored, on one thread. The textbook side is
vectorised, in float64 as ours, and works on a block of cells at a time, so that it does not hold all covariances at
once as the published codes do. Some of its cells are timed and the rest extrapolated: all cost the same. A note gives
the ratio to the same route in float32, which loses three digits more.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from sparcal.detectors.padim import PaDiM
from sparcal.types import Features
from speed.measure import Goal, Row, Work, measure

RIDGE = 0.01
TOLERANCE = 1e-5  # of a distance
BLOCK = 8


def images(n: int, side: int, channels: int, seed: int) -> Tensor:
    """(n, side * side, c): each cell varies along 32 axes of falling spread, with a little noise in all channels."""
    random = torch.Generator().manual_seed(0)
    axes = torch.randn(32, channels, generator=random) * (torch.arange(1, 33) ** -0.5)[:, None]
    random.manual_seed(seed)
    x = torch.randn(n, side * side, channels, generator=random).mul_(0.1)
    return x.add_(torch.randn(n, side * side, 32, generator=random) @ axes)


def ours(n: int, side: int, channels: int) -> Work:
    normal, test = (Features((images(n, side, channels, seed).unflatten(1, (side, side)),)) for seed in (1, 2))

    def run() -> Tensor:
        return PaDiM(dimension=channels, ridge=RIDGE).fit(normal).score(test).cell

    return Work(run, lambda cell: cell.flatten(1).numpy())


def textbook(n: int, side: int, channels: int, cells: int, dtype: str) -> Work:
    every = side * side // cells
    normal, test = (images(n, side, channels, seed)[:, ::every][:, :cells].to(getattr(torch, dtype)) for seed in (1, 2))

    def run() -> Tensor:
        return torch.cat(
            [textbook_distances(normal[:, i : i + BLOCK], test[:, i : i + BLOCK]) for i in range(0, cells, BLOCK)], 1
        )

    run()
    return Work(run)


def textbook_distances(normal: Tensor, test: Tensor) -> Tensor:
    mean = normal.mean(dim=0)
    x, z = (normal - mean).transpose(0, 1), (test - mean).transpose(0, 1)  # (cells, n, c)
    covariance = x.mT @ x / (x.shape[1] - 1) + RIDGE * torch.eye(x.shape[2], dtype=x.dtype)
    squares = torch.einsum("cnd,cde,cne->nc", z, torch.linalg.inv(covariance), z)
    return squares.clamp_min(0).sqrt()


def rows(*, quick: bool = False) -> list[Row]:
    """The rows of the speed table."""
    n, side, channels, cells = (40, 8, 100, 16) if quick else (100, 56, 550, 56)
    mine, found = measure(ours, n, side, channels, repeats=2)
    part, expected = measure(textbook, n, side, channels, cells, "float64", repeats=2)
    peer = part.times(side * side / cells)
    coarse = measure(textbook, n, side, channels, cells, "float32", repeats=1)[0].times(side * side / cells)
    every = side * side // cells
    difference = float(np.abs(found[:, ::every][:, :cells] / expected - 1).max())
    time = Row(
        path=f"PaDiM fit + score, {side} x {side} cells, {channels} d, {n} images",
        peer="textbook covariances",
        ours=mine,
        theirs=peer,
        measured=peer.cpu_s / mine.cpu_s,
        goal=Goal(10, "less CPU time"),
        agree=difference <= TOLERANCE,
        agreement=f"distances of {cells} cells differ by {difference:.0e} of themselves at most",
        note=f"{cells} of the textbook's {side * side} cells timed, the rest extrapolated. Its float32 form: "
        f"{coarse.cpu_s:.1f} s, {coarse.cpu_s / mine.cpu_s:.1f}x.",
        short="Ours works on n x n matrices instead of c x c, in float64. What is left is the products that make them and one "
        "triangular solve per cell, at the speed of the linear-algebra library; the ratio falls where that is fast for "
        "large inverses and slow for small ones.",
    )
    if mine.extra_mb is None:
        return [time]
    covariances = side * side * channels**2 * 4 / 2**20
    memory = replace(
        time,
        path=f"{time.path}: memory beside the features",
        peer="the array of covariances",
        theirs=None,
        measured=mine.extra_mb / covariances,
        goal=Goal(1, "of its size", at_most=True),
        note=f"{mine.extra_mb:.0f} MB beside {covariances:.0f} MB.",
    )
    return [time, memory]
