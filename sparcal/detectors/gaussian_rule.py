"""The Mahalanobis distance to the Gaussian of each cell, for exported graphs: PaDiM."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sparcal.detectors.export_rule import DrawMap, GraphShapes, GraphTensors, remove_directions

_CHUNK_BYTES = 4 * 2**20  # of the whiteners worked on at a time


@dataclass(frozen=True)
class GaussianRule:
    """Mahalanobis distance to the Gaussian of each cell.

    Args:
        ridge: what PaDiM adds to the diagonal of every covariance.
        dimension: channels that PaDiM keeps at most.
    """

    ridge: float
    dimension: int

    def shapes(self, h: int, w: int, d: int) -> GraphShapes:
        """The names and shapes of the tensors for a grid of features."""
        c = min(self.dimension, d)
        return {"channels": (c,), "gaussian_mean": (h, w, c), "gaussian_whitener": (h, w, "r", c)}

    def score(self, level: Tensor, tensors: GraphTensors, draw: DrawMap) -> tuple[Tensor, Tensor, Tensor]:
        """Image scores (n,), cell scores (n, h, w) and maps (n, H, W) of features (n, h, w, d)."""
        z = level.index_select(3, tensors["channels"]) - tensors["gaussian_mean"]
        white = remove_directions(z, tensors["gaussian_whitener"]) / self.ridge**0.5
        cell = white.square().sum(dim=-1).sqrt()
        heat = draw(cell)
        return heat.flatten(1).amax(dim=1), cell, heat


def cell_whiteners(state: Tensor, *, channels: int, ridge: float) -> Tensor:
    """(h, w, r, c): the rows B of `whitener_of_kernel` at every cell.

    Args:
        state: PaDiM's kernels (h, w, n, c), or its packed factors (h, w, c (c + 1) / 2).
    """
    h, w = state.shape[:2]
    by_kernel = state.ndim == 4
    rows = state.shape[2] - 1 if by_kernel else channels  # images less their mean
    whitener = torch.empty(h * w, rows, channels)
    step = max(1, _CHUNK_BYTES // (8 * channels * rows))
    for start in range(0, h * w, step):
        part = state.flatten(0, 1)[start : start + step]
        rows_of_cells = whitener_of_kernel(part)[:, :rows] if by_kernel else whitener_of_factor(part, channels, ridge)
        whitener[start : start + step] = rows_of_cells
    return whitener.reshape(h, w, rows, channels)


def whitener_of_kernel(kernel: Tensor) -> Tensor:
    """Rows B with covariance^-1/2 = (I - B^T B) / sqrt(ridge), strongest first, from PaDiM's kernel K (cells, n, c).

    covariance^-1 is (I - K^T K) / ridge. With K = U diag(k) V^T, the rows of B are sqrt(1 - sqrt(1 - k^2)) v.
    """
    squares, left = torch.linalg.eigh(kernel @ kernel.mT)  # k^2, ascending
    directions: Tensor = left.flip(-1).mT @ kernel  # k v
    # (1 - sqrt(1 - k^2)) / k^2 is 1 / (1 + sqrt(1 - k^2)), which has no 0 / 0.
    gains: Tensor = (1 + (1 - squares.flip(-1).clamp(0, 1)).sqrt()).rsqrt()
    return directions * gains[..., None]


def whitener_of_factor(packed: Tensor, c: int, ridge: float) -> Tensor:
    """The same rows (cells, c, c) from PaDiM's packed Cholesky factors of the covariance."""
    rows, columns = torch.tril_indices(c, c, device=packed.device)
    factor = packed.new_zeros(len(packed), c, c)
    factor[:, rows, columns] = packed
    variances, vectors = torch.linalg.eigh(factor @ factor.mT)  # ascending; none is below the ridge
    gains = (1 - (ridge / variances.clamp_min(ridge)).sqrt()).sqrt()
    rows_of_cell: Tensor = vectors * gains[..., None, :]
    return rows_of_cell.flip(-1).mT
