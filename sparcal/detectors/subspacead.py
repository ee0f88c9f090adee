"""SubspaceAD: what one PCA of all normal features leaves unexplained (Lendering et al., 2026).

The defaults are the authors' full-shot script: no augmentation, components up to 99 % of the variance, squared
residual, image score from the top 1 % of the pixels of the finished map.

Where this differs from the authors' code:
* The features come in ready: the mean over seven layers belongs to the encoder.
* Their paper scores the top 1 % of patches and smooths by sigma 4; their code takes pixels, and a 3x3 kernel that cuts
  sigma 4 down to a box. The code is followed.
* Mean and covariance see the same features; their two passes can see two different augmentations.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import torch
from torch import Tensor

from sparcal.detectors.export_rule import GraphTensors
from sparcal.detectors.levels import only_level, scored_level
from sparcal.detectors.subspace_rule import SubspaceRule
from sparcal.feature_checks import check_finite
from sparcal.imaging.maps import MapRule, input_map, top_mean
from sparcal.settings import finite_number, instance_of, parameters, share
from sparcal.types import Family, Features, Scores, fitted, require_reference

MAP_RULE = MapRule(cell_pixels=14, blur="box3")

# Images are worked on in blocks of about this many bytes, which bounds every temporary.
_CHUNK_BYTES = 64 * 2**20


@dataclass
class SubspaceAD:
    """Squared distance of each cell to the principal subspace of all normal features.

    Args:
        explained: share of the variance that the kept components reach, in (0, 1].
        top: share of the map's pixels, the highest, whose mean scores the image.

    After `fit`: `mean_`, (d,); `basis_`, (d, r), orthonormal columns; `rank_`, the r that `explained` needed, which
    changes with a correction and is worth a line in a log. State is float64.
    """

    explained: float = 0.99
    top: float = 0.01
    map_rule: MapRule = MAP_RULE
    family: Family = field(default="reference", init=False)
    mean_: Tensor | None = field(default=None, init=False, repr=False)
    basis_: Tensor | None = field(default=None, init=False, repr=False)
    rank_: int | None = field(default=None, init=False, repr=False)

    get_params = parameters

    def __post_init__(self) -> None:
        share(self.explained, "SubspaceAD.explained", hint="it is a share of variance")
        finite_number(self.top, "SubspaceAD.top", least=0, most=1, hint="it is a share of the pixels")
        instance_of(self.map_rule, "SubspaceAD.map_rule", MapRule)

    def fit(self, reference: Features | None) -> Self:
        """One mean and one principal subspace of all cells of all images."""
        level = only_level("SubspaceAD", require_reference(self, reference))
        check_finite(Features((level,)), "SubspaceAD's reference features")
        self.mean_, covariance = mean_covariance(level)
        self.basis_ = principal_subspace(covariance, self.explained)
        self.rank_ = self.basis_.shape[1]
        return self

    def score(self, features: Features) -> Scores:
        """Squared residual of each cell, and the mean of the highest pixels of the finished map per image."""
        mean, basis = fitted(self, self.mean_), fitted(self, self.basis_)
        level = scored_level("SubspaceAD", features, len(mean))
        cell = torch.cat([squared_residual(x, mean, basis).to(x.dtype) for x in image_blocks(level)])
        pixels = (input_map(part, self.map_rule).flatten(1) for part in torch.split(cell, 16))
        return Scores(torch.cat([top_mean(part, self.top) for part in pixels]).to(cell.dtype), cell)

    def export_rule(self) -> SubspaceRule:
        """How an exported graph scores as this detector does."""
        return SubspaceRule(self.top)

    def export_state(self) -> GraphTensors:
        """Mean and basis, by the names that the exported graph reads."""
        basis = fitted(self, self.basis_).mT.float()
        if len(basis) == 0:
            basis = basis.new_zeros(1, basis.shape[1])  # a graph needs a row; one of zeros removes nothing
        return {"pca_mean": fitted(self, self.mean_).float(), "pca_basis": basis.contiguous()}


def image_blocks(level: Tensor) -> tuple[Tensor, ...]:
    """(n, h, w, d) features in blocks of whole images whose float64 copy stays small."""
    return torch.split(level, max(1, _CHUNK_BYTES // (8 * level[0].numel())))


def mean_covariance(level: Tensor) -> tuple[Tensor, Tensor]:
    """Mean (d,) and unbiased covariance (d, d) of all vectors of (n, h, w, d) features, in float64."""
    d = level.shape[-1]
    count = level.numel() // d
    mean = level.new_zeros(d, dtype=torch.float64)
    for block in image_blocks(level):
        mean += block.sum(dim=(0, 1, 2), dtype=torch.float64) / count
    covariance = level.new_zeros(d, d, dtype=torch.float64)
    for block in image_blocks(level):
        centred = block.double().flatten(0, 2) - mean
        covariance.addmm_(centred.mT, centred)
    return mean, covariance / max(1, count - 1)


def principal_subspace(covariance: Tensor, explained: float) -> Tensor:
    """(d, r): the fewest leading eigenvectors that reach the share `explained` of the variance; none if there is none."""
    eigenvalues, ascending = torch.linalg.eigh(covariance)
    vectors: Tensor = ascending.flip(1)
    falling = eigenvalues.clamp_min(0).flip(0)
    total = falling.sum()
    if total == 0:
        return vectors[:, :0]
    rank = int(torch.searchsorted(falling.cumsum(0), explained * total)) + 1
    return vectors[:, : min(rank, len(vectors))].contiguous()


def squared_residual(x: Tensor, mean: Tensor, basis: Tensor) -> Tensor:
    """|z|^2 - |C^T z|^2 with z = x - mean: what the subspace leaves of each vector; (..., d) to (...), in float64."""
    z = x.double() - mean
    return (z.square().sum(dim=-1) - (z @ basis).square().sum(dim=-1)).clamp_min(0)
