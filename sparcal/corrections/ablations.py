"""The paper's ablations of SPARC, and no correction at all: what each part of the method is worth."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import torch
from torch import Tensor

from sparcal.feature_checks import check_given, check_grid, only_grid
from sparcal.settings import parameters
from sparcal.sparc import RANK_TOLERANCE, SPARC, check_calibration, check_rank
from sparcal.types import Features, Side, check_side, fitted, require_features


@dataclass
class Identity:
    """No correction: the base of every comparison."""

    on: Side = "both"

    get_params = parameters

    def __post_init__(self) -> None:
        check_side(self.on, "Identity.on")

    def fit(self, calibration: Features, reference: Features | None = None) -> Self:
        """Learn nothing."""
        require_features(calibration, "Identity's calibration features")
        check_given(reference, "Identity")
        return self

    def apply(self, features: Features) -> Features:
        """The features as they are."""
        return require_features(features, "Identity.apply's features")

    def apply_reference(self, reference: Features) -> Features:
        """The features as they are."""
        return require_features(reference, "Identity.apply_reference's features")

    def export_state(self) -> None:
        """None: an exported graph leaves the features as they are."""


@dataclass
class MeanOnly:
    """f - mu: subtracts the per-cell calibration mean, and removes no direction.

    After `fit`: `mean_`, one (h, w, d) per level.
    """

    on: Side = "both"
    mean_: tuple[Tensor, ...] | None = field(default=None, init=False, repr=False)

    get_params = parameters

    def __post_init__(self) -> None:
        check_side(self.on, "MeanOnly.on")

    def fit(self, calibration: Features, reference: Features | None = None) -> Self:
        """Learn the mean of the calibration normals at each cell."""
        check_calibration(calibration, "MeanOnly")
        check_given(reference, "MeanOnly")
        self.mean_ = cell_means(calibration)
        return self

    def apply(self, features: Features) -> Features:
        """f - mu at each cell."""
        means = fitted(self, self.mean_)
        check_grid(features, means, "MeanOnly.apply")
        return Features(tuple(x - mu for x, mu in zip(features.levels, means, strict=True)), features.cls)

    def apply_reference(self, reference: Features) -> Features:
        """The same as `apply`."""
        return self.apply(reference)

    def export_state(self) -> tuple[Tensor, Tensor, Tensor] | None:
        """As `SPARC.export_state`: no direction is removed, and the target is zero."""
        means = fitted(self, self.mean_)
        if self.on == "reference":
            return None
        mean = only_grid(means, "MeanOnly").float()
        return mean, mean.new_zeros(*mean.shape[:2], 1, mean.shape[2]), torch.zeros_like(mean)


@dataclass
class GlobalSubspace:
    """One rank k - 1 subspace for all cells: the top right singular vectors of every cell's centred features, stacked.

    After `fit`: `mean_`, one (h, w, d) per level; `basis_`, one (k - 1, d) per level.
    """

    on: Side = "both"
    mean_: tuple[Tensor, ...] | None = field(default=None, init=False, repr=False)
    basis_: tuple[Tensor, ...] | None = field(default=None, init=False, repr=False)

    get_params = parameters

    def __post_init__(self) -> None:
        check_side(self.on, "GlobalSubspace.on")

    def fit(self, calibration: Features, reference: Features | None = None) -> Self:
        """Learn the mean at each cell, and the k - 1 longest directions of all cells together."""
        k = check_calibration(calibration, "GlobalSubspace")
        check_given(reference, "GlobalSubspace")
        self.mean_ = cell_means(calibration)
        self.basis_ = tuple(
            _leading_directions(x, mu, k - 1) for x, mu in zip(calibration.levels, self.mean_, strict=True)
        )
        return self

    def apply(self, features: Features) -> Features:
        """f - V V^T (f - mu) at each cell, with one V for all."""
        means = fitted(self, self.mean_)
        check_grid(features, means, "GlobalSubspace.apply")
        levels = zip(features.levels, means, fitted(self, self.basis_), strict=True)
        return Features(tuple(x - ((x - mu) @ v.mT) @ v for x, mu, v in levels), features.cls)

    def apply_reference(self, reference: Features) -> Features:
        """The same as `apply`."""
        return self.apply(reference)


@dataclass
class SparcMean:
    """(I - V V^T)(f - mu): SPARC with the calibration mean removed as well.

    After `fit`: `sparc_`, the fitted SPARC.
    """

    rank: int | None = None
    on: Side = "both"
    sparc_: SPARC | None = field(default=None, init=False, repr=False)

    get_params = parameters

    def __post_init__(self) -> None:
        check_rank(self.rank, "SparcMean.rank")
        check_side(self.on, "SparcMean.on")

    def fit(self, calibration: Features, reference: Features | None = None) -> Self:
        """Fit SPARC."""
        self.sparc_ = SPARC(rank=self.rank).fit(calibration, reference)
        return self

    def apply(self, features: Features) -> Features:
        """SPARC's features less the calibration mean."""
        sparc = fitted(self, self.sparc_)
        levels = zip(sparc.apply(features).levels, fitted(sparc, sparc.mean_), strict=True)
        return Features(tuple(x - mu for x, mu in levels), features.cls)

    def apply_reference(self, reference: Features) -> Features:
        """The same as `apply`."""
        return self.apply(reference)

    def export_state(self) -> tuple[Tensor, Tensor, Tensor] | None:
        """As `SPARC.export_state`, with zero as the target."""
        state = fitted(self, self.sparc_).export_state() if self.on != "reference" else None
        return None if state is None else (state[0], state[1], torch.zeros_like(state[0]))


def cell_means(features: Features) -> tuple[Tensor, ...]:
    """The mean over images at each cell, accumulated in float64."""
    return tuple(x.mean(dim=0, dtype=torch.float64).to(x.dtype) for x in features.levels)


def _leading_directions(x: Tensor, mean: Tensor, count: int) -> Tensor:
    """The `count` longest directions of all centred cells together; zero rows where there are fewer."""
    rows = (x.double() - mean.double()).flatten(0, 2)  # (k h w, d)
    values, vectors = torch.linalg.eigh(rows.mT @ rows)  # ascending
    values, vectors = values.flip(-1)[:count], vectors.flip(-1)[:, :count]
    keep = values.clamp_min(0).sqrt() > RANK_TOLERANCE * x.double().norm()
    return torch.where(keep, vectors, 0.0).mT.to(x.dtype).contiguous()
