"""FastRecon: what a few support images cannot reconstruct of a query (Fang et al., ICCV 2023).

The reference is the support: the k calibration normals of the lot, with no training set behind them. A coreset S of
their patches reconstructs each query feature map Q by regularised least squares, which is drawn towards the support's
mean at the same position,

    W = (Q S^T + lambda mu S^T) ((1 + lambda) S S^T)^-1,    reconstruction = W S,

and a cell scores the length of what is left. That reconstruction is the projection of (Q + lambda mu) / (1 + lambda)
onto the span of S, which is how it is computed.

The defaults are the authors' code (FzJun26th/FastRecon). Where this differs from it:
* The span is found by an SVD that drops directions of rounding size, so duplicate patches, or more patches than
  channels, need no inverse of a singular matrix.
* The whole support is used. Their script keeps the last batch only, one image at its default batch size.
* `coreset` is 0.01, their README; their parser says 0.001 and the paper does not tell.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import torch
from torch import Tensor

from sparcal.detectors.levels import only_level, scored_level
from sparcal.errors import ShapeError
from sparcal.imaging.maps import MapRule
from sparcal.neighbours.coreset import greedy_coreset
from sparcal.settings import finite_number, instance_of, parameters, share
from sparcal.types import Family, Features, Scores, fitted, require_reference

MAP_RULE = MapRule(cell_pixels=8)

# A direction of the support counts only if its singular value exceeds this share of the largest; encoders compute in
# float32, so a smaller one is rounding.
SPAN_TOLERANCE = 1e-6

# Images are worked on in blocks of about this many bytes, which bounds every temporary.
_CHUNK_BYTES = 64 * 2**20


@dataclass
class FastRecon:
    """Distance of each cell to its reconstruction from a coreset of the support.

    Args:
        coreset: share of the support's patches that reconstruct, in (0, 1].
        weight: lambda, how strongly the reconstruction is drawn towards the support's mean at the cell; 0 or more.

    After `fit`: `basis_`, (s, d), orthonormal rows that span the coreset; `mean_`, (h, w, d).
    """

    coreset: float = 0.01
    weight: float = 2.0
    map_rule: MapRule = MAP_RULE
    family: Family = field(default="reference", init=False)
    basis_: Tensor | None = field(default=None, init=False, repr=False)
    mean_: Tensor | None = field(default=None, init=False, repr=False)

    get_params = parameters

    def __post_init__(self) -> None:
        share(self.coreset, "FastRecon.coreset", hint="it is the share of support patches kept")
        finite_number(self.weight, "FastRecon.weight", least=0, hint="0 ignores the support's mean")
        instance_of(self.map_rule, "FastRecon.map_rule", MapRule)

    def fit(self, reference: Features | None) -> Self:
        """Keep the span of a coreset and the mean of the support, which is what `reference` holds."""
        level = only_level("FastRecon", require_reference(self, reference))
        self.basis_ = row_space(support_coreset(level, self.coreset))
        self.mean_ = level.mean(dim=0)
        return self

    def score(self, features: Features) -> Scores:
        """Length of each cell's residual, and its largest value per image."""
        basis, mean = fitted(self, self.basis_), fitted(self, self.mean_)
        level = scored_level("FastRecon", features, basis.shape[1])
        if level.shape[1:3] != mean.shape[:2]:
            h, w = mean.shape[:2]
            raise ShapeError(
                f"FastRecon was fitted on a grid of {h}x{w} cells, got {level.shape[1]}x{level.shape[2]}: "
                "encode support and test images at one size."
            )
        step = max(1, _CHUNK_BYTES // (mean.element_size() * mean.numel()))
        parts = [residual_length(x.to(mean.dtype), mean, basis, self.weight) for x in torch.split(level, step)]
        cell = torch.cat(parts).to(level.dtype)
        return Scores(cell.flatten(1).amax(dim=1), cell)


def residual_length(query: Tensor, mean: Tensor, basis: Tensor, weight: float) -> Tensor:
    """(n, h, w): how far each cell of `query` is from what the basis makes of it, drawn towards the support's mean."""
    target = (query + weight * mean) / (1 + weight)
    length: Tensor = torch.linalg.vector_norm(query - target @ basis.mT @ basis, dim=-1)
    return length


def support_coreset(level: Tensor, kept: float) -> Tensor:
    """(m, d): a greedy coreset of all patches of the support, from its first patch on.

    Args:
        level: (k, h, w, d).
        kept: share of the patches, at least one of them.
    """
    patches = level.flatten(0, 2)
    return patches[greedy_coreset(patches, max(1, int(kept * len(patches))), start=0)]


def row_space(points: Tensor) -> Tensor:
    """(s, d): orthonormal rows that span the rows of `points` (m, d), directions of rounding size left out."""
    _, length, rows = torch.linalg.svd(points.double(), full_matrices=False)
    kept: Tensor = rows[length > SPAN_TOLERANCE * length[0]]
    return kept.to(points.dtype)
