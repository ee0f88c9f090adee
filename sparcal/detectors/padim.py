"""PaDiM: a Gaussian per cell and the Mahalanobis distance to it (Defard et al., ICPR workshops 2021).

The authors released no code; the defaults are those of the implementation everybody cites
(xiahaifeng1995/PaDiM-Anomaly-Detection-Localization-master): 550 random channels, unbiased covariance + 0.01 I.

Where this differs from that code:
* The features come in ready: layers are joined by the encoder, so that a correction acts before channels are drawn.
* float64 throughout, and no covariance is ever inverted. With fewer images than channels, the usual case, no
  covariance is formed either: the same distance follows from one images x images system per cell (`kernel_state`).
* It is the smoothed map, `input_map(cell, map_rule)`, whose maximum scores the image, as there; the min-max scaling
  over the test set, which changes no ranking and would tie an image's score to its neighbours, is left out.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self

import torch
from torch import Tensor

from sparcal.detectors.export_rule import GraphTensors
from sparcal.detectors.gaussian_rule import GaussianRule, cell_whiteners
from sparcal.detectors.levels import only_level, scored_level
from sparcal.errors import DataError, ShapeError
from sparcal.feature_checks import check_finite
from sparcal.imaging.maps import MapRule, input_map
from sparcal.memory import uninitialised
from sparcal.settings import finite_number, instance_of, parameters, seed_number, whole_number
from sparcal.types import Family, Features, Grids, Scores, fitted, require_reference

MAP_RULE = MapRule(cell_pixels=4)

# Cells are worked on in blocks of about this many bytes: it bounds every temporary, and blocks that stay in the
# processor's cache are copied twice as fast.
_CHUNK_BYTES = 4 * 2**20


@dataclass
class PaDiM:
    """Mahalanobis distance of each cell to the Gaussian of the normal features at that cell.

    Args:
        dimension: channels kept, drawn at random once; all are kept where there are no more than that.
        ridge: added to the diagonal of every covariance.
        seed: of the channel draw; 1024 gives the published channels for 1792.

    After `fit`: `channels_`, (c,) the channels kept; `total_`, how many there were; `mean_`, (h, w, c); and either
    `kernel_`, (h, w, n, c), with fewer images than channels, or `factor_`, (h, w, c (c + 1) / 2), the packed Cholesky
    factors. State is float64.
    """

    dimension: int = 550
    ridge: float = 0.01
    seed: int = 1024
    map_rule: MapRule = MAP_RULE
    family: Family = field(default="reference", init=False)
    channels_: Tensor | None = field(default=None, init=False, repr=False)
    total_: int | None = field(default=None, init=False, repr=False)
    mean_: Tensor | None = field(default=None, init=False, repr=False)
    kernel_: Tensor | None = field(default=None, init=False, repr=False)
    factor_: Tensor | None = field(default=None, init=False, repr=False)

    get_params = parameters

    def __post_init__(self) -> None:
        whole_number(self.dimension, "PaDiM.dimension", least=1)
        finite_number(self.ridge, "PaDiM.ridge", above=0, hint="it keeps every covariance invertible")
        seed_number(self.seed, "PaDiM.seed")
        instance_of(self.map_rule, "PaDiM.map_rule", MapRule)

    def fit(self, reference: Features | None) -> Self:
        """Fit one Gaussian per cell."""
        level = only_level("PaDiM", require_reference(self, reference))
        check_finite(Features((level,)), "PaDiM's reference features")
        n, h, w, d = level.shape
        if n < 2:
            raise ShapeError(f"PaDiM needs at least 2 reference images, got {n}: one image has no covariance.")
        channels = draw_channels(d, self.dimension, self.seed).to(level.device)
        c = len(channels)
        by_kernel = n - 1 < c
        mean = level.new_empty((h * w, c), dtype=torch.float64)
        shape = (h * w, n, c) if by_kernel else (h * w, c * (c + 1) // 2)
        state = uninitialised(shape, level, dtype=torch.float64)
        for block, x in cell_blocks(level, channels):
            mean[block] = x.mean(dim=1)
            x.sub_(mean[block, None])
            if by_kernel:
                kernel_state(x, self.ridge, out=state[block])
            else:
                state[block] = packed_factor(x, self.ridge)
        state = state.reshape(h, w, *state.shape[1:])
        self.channels_, self.total_, self.mean_ = channels, d, mean.reshape(h, w, c)
        self.kernel_, self.factor_ = (state, None) if by_kernel else (None, state)
        return self

    def reference_bytes(self, grids: Grids, images: int) -> int:
        """What `fit` will keep of so many images: a mean, and the smaller of kernel and covariance, per cell in float64."""
        h, w, d = grids[0]
        c = min(d, self.dimension)
        return 8 * h * w * (c + (images * c if images - 1 < c else c * (c + 1) // 2))

    def score(self, features: Features) -> Scores:
        """Mahalanobis distance of each cell, and the largest value of the smoothed map per image."""
        grid, channels = fitted(self, self.mean_).shape[:2], fitted(self, self.channels_)
        level = scored_level("PaDiM", features, fitted(self, self.total_))
        n, h, w, _ = level.shape
        if (h, w) != grid:
            raise ShapeError(
                f"PaDiM has one Gaussian per cell of a {grid[0]}x{grid[1]} grid, got features on {h}x{w}: "
                "encode at the size it was fitted on."
            )
        mean = fitted(self, self.mean_).flatten(0, 1)
        squared = torch.empty(h * w, n, dtype=torch.float64, device=level.device)
        for block, z in cell_blocks(level, channels):
            z.sub_(mean[block, None])
            if self.kernel_ is not None:
                squared[block] = kernel_distance(z, self.kernel_.flatten(0, 1)[block], self.ridge)
            else:
                squared[block] = factor_distance(z, fitted(self, self.factor_).flatten(0, 1)[block])
        cell = squared.clamp_min(0).sqrt().mT.reshape(n, h, w).to(level.dtype)
        maps = (input_map(part, self.map_rule) for part in torch.split(cell, 16))
        return Scores(torch.cat([part.flatten(1).amax(dim=1) for part in maps]).to(cell.dtype), cell)

    def export_rule(self) -> GaussianRule:
        """How an exported graph scores as this detector does."""
        return GaussianRule(self.ridge, self.dimension)

    def export_state(self) -> GraphTensors:
        """The Gaussians, by the names that the exported graph reads."""
        mean, channels = fitted(self, self.mean_), fitted(self, self.channels_)
        state = self.kernel_ if self.kernel_ is not None else fitted(self, self.factor_)
        whiteners = cell_whiteners(state, channels=len(channels), ridge=self.ridge)
        return {"channels": channels, "gaussian_mean": mean.float(), "gaussian_whitener": whiteners}


def draw_channels(total: int, dimension: int, seed: int) -> Tensor:
    """The channels kept, in the order Python's own generator draws them, as published."""
    if total <= dimension:
        return torch.arange(total)
    return torch.tensor(random.Random(seed).sample(range(total), dimension))


def cell_blocks(level: Tensor, channels: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Blocks of cells of (n, h, w, d) features as float64 (cells, n, c), with the slice of cells each covers.

    A block lies where the one before it lay, so that no memory has to be had anew.
    """
    cells, n, c = level.flatten(1, 2), len(level), len(channels)
    every = c == level.shape[-1]
    step = max(1, _CHUNK_BYTES // (8 * n * c))
    room = level.new_empty(min(step, cells.shape[1]), n, c, dtype=torch.float64)
    for start in range(0, cells.shape[1], step):
        block = slice(start, min(start + step, cells.shape[1]))
        part = cells[:, block] if every else cells[:, block].index_select(2, channels)
        yield block, room[: part.shape[1]].copy_(part.transpose(0, 1))


def kernel_state(centred: Tensor, ridge: float, *, out: Tensor | None = None) -> Tensor:
    """L^-1 X of each cell, with X = centred and L L^T = X X^T + (n - 1) ridge I.

    The covariance is X^T X / (n - 1) + ridge I, and by the Woodbury identity its inverse is
    (I - X^T (L L^T)^-1 X) / ridge.

    Args:
        centred: (cells, n, c).
        out: where the result goes, in place of new memory.
    """
    gram = centred @ centred.mT
    gram.diagonal(dim1=-2, dim2=-1).add_((centred.shape[1] - 1) * ridge)
    # Solved as X^T L^-T: the library wants columns, and these are the rows of what is kept, so nothing is transposed.
    factor = _cholesky(gram, ridge).mT
    columns = None if out is None else out.mT
    kernel: Tensor = torch.linalg.solve_triangular(factor, centred.mT, upper=True, left=False, out=columns).mT
    return kernel


def kernel_distance(z: Tensor, kernel: Tensor, ridge: float) -> Tensor:
    """Squared Mahalanobis distance (|z|^2 - |L^-1 X z|^2) / ridge of (cells, n, c) vectors: (cells, n).

    A difference of near-equal numbers, hence float64.
    """
    return (z.square().sum(dim=-1) - (z @ kernel.mT).square().sum(dim=-1)) / ridge


def packed_factor(centred: Tensor, ridge: float) -> Tensor:
    """Lower triangles of the Cholesky factors of the covariance + ridge I: (cells, c (c + 1) / 2)."""
    covariance = centred.mT @ centred / (centred.shape[1] - 1)
    covariance.diagonal(dim1=-2, dim2=-1).add_(ridge)
    rows, columns = torch.tril_indices(covariance.shape[-1], covariance.shape[-1], device=centred.device)
    return _cholesky(covariance, ridge)[:, rows, columns]


def _cholesky(matrices: Tensor, ridge: float) -> Tensor:
    """The lower factors, or a DataError where rounding has swallowed the ridge that makes the matrices invertible."""
    factor: Tensor
    factor, failed = torch.linalg.cholesky_ex(matrices)
    if bool(failed.any()):
        largest = float(matrices.diagonal(dim1=-2, dim2=-1).amax())
        raise DataError(
            f"PaDiM needs features beside whose squares a ridge of {ridge:g} still counts, got squared deviations up to "
            f"{largest:.3g}: scale the features down, or take a larger ridge."
        )
    return factor


def factor_distance(z: Tensor, packed: Tensor) -> Tensor:
    """Squared Mahalanobis distance |L^-1 z|^2 of (cells, n, c) vectors: (cells, n)."""
    c = z.shape[-1]
    rows, columns = torch.tril_indices(c, c, device=z.device)
    factor = z.new_zeros(len(z), c, c)
    factor[:, rows, columns] = packed
    whitened: Tensor = torch.linalg.solve_triangular(factor, z.mT, upper=False)
    return whitened.square().sum(dim=-2)
