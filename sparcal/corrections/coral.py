"""CORAL (Sun et al. 2016): global second-order alignment of deployment features to the training features.

On unit-length features, f -> (f - mu_s) C_s^-1/2 C_t^1/2 + mu_t with C = Cov + regularisation * I, where s is the
lot's calibration normals and t the training features, all cells and images pooled. Only the test side is mapped;
the reference is rebuilt from the unit-length training features. With the paper's regularisation of 1 and unit-length
features the covariances hardly matter, so the map is close to "normalise and shift the global mean".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import torch
from torch import Tensor
from torch.nn.functional import normalize

from sparcal.errors import DataError, ShapeError
from sparcal.feature_checks import check_reference
from sparcal.settings import finite_number, parameters
from sparcal.sparc import check_calibration
from sparcal.types import Features, Side, check_side, fitted, require_features


@dataclass
class Coral:
    """Few-shot CORAL, one global alignment per level.

    After `fit`: `source_mean_`, `target_mean_`, one (d,) per level; `transport_`, one (d, d) per level.
    """

    regularisation: float = 1.0
    on: Side = "both"
    source_mean_: tuple[Tensor, ...] | None = field(default=None, init=False, repr=False)
    target_mean_: tuple[Tensor, ...] | None = field(default=None, init=False, repr=False)
    transport_: tuple[Tensor, ...] | None = field(default=None, init=False, repr=False)

    get_params = parameters

    def __post_init__(self) -> None:
        finite_number(self.regularisation, "Coral.regularisation", above=0, hint="it keeps every covariance invertible")
        check_side(self.on, "Coral.on")

    def fit(self, calibration: Features, reference: Features | None = None) -> Self:
        """Learn the map from the lot's mean and covariance to those of the reference."""
        check_calibration(calibration, "Coral")
        if reference is None:
            raise DataError("Coral needs the reference features in fit, got none: pass reference=.")
        if require_features(reference, "Coral's reference").grids != calibration.grids:
            raise ShapeError(
                f"Coral needs reference and calibration on the same grids, got {reference.grids} and "
                f"{calibration.grids}: encode with the same encoder and image size."
            )
        check_reference(reference, "Coral")
        source = [_moments(x) for x in calibration.levels]
        target = [_moments(x) for x in reference.levels]
        self.source_mean_ = tuple(mean.to(x.dtype) for (mean, _), x in zip(source, calibration.levels, strict=True))
        self.target_mean_ = tuple(mean.to(x.dtype) for (mean, _), x in zip(target, reference.levels, strict=True))
        self.transport_ = tuple(
            (_power(cov_s, -0.5, self.regularisation) @ _power(cov_t, 0.5, self.regularisation)).to(x.dtype)
            for (_, cov_s), (_, cov_t), x in zip(source, target, calibration.levels, strict=True)
        )
        return self

    def apply(self, features: Features) -> Features:
        """Unit-length features, mapped to the reference's mean and covariance."""
        source, target = fitted(self, self.source_mean_), fitted(self, self.target_mean_)
        if [d for _, _, d in require_features(features, "Coral.apply's features").grids] != [
            len(mean) for mean in source
        ]:
            raise ShapeError(
                f"Coral.apply expects {[len(mean) for mean in source]} channels per level, "
                f"got {[d for _, _, d in features.grids]}: encode with the same encoder."
            )
        if any(x.dtype != mean.dtype for x, mean in zip(features.levels, source, strict=True)):
            raise ShapeError(
                f"Coral.apply expects features of the type it was calibrated on, {source[0].dtype}, got "
                f"{features.levels[0].dtype}: convert one side."
            )
        levels = zip(features.levels, source, fitted(self, self.transport_), target, strict=True)
        return Features(tuple((_unit(x) - s) @ a + t for x, s, a, t in levels), features.cls)

    def apply_reference(self, reference: Features) -> Features:
        """The training features are the target: they are brought to unit length and otherwise kept."""
        return require_features(reference, "Coral.apply_reference's features").map(_unit)


def _unit(x: Tensor) -> Tensor:
    """Every cell at unit length; zeros stay zeros in half precision too, where the guard of `normalize` is itself zero."""
    return normalize(x.to(torch.promote_types(x.dtype, torch.float32)), dim=-1).to(x.dtype)


def _moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and unbiased covariance of all unit-length cells, in float64, image by image."""
    count, d = x.shape[0] * x.shape[1] * x.shape[2], x.shape[3]
    total = torch.zeros(d, dtype=torch.float64, device=x.device)
    square = torch.zeros(d, d, dtype=torch.float64, device=x.device)
    for image in x:
        rows = normalize(image.flatten(0, 1).double(), dim=-1)
        total += rows.sum(dim=0)
        square += rows.mT @ rows
    mean = total / count
    return mean, (square - count * torch.outer(mean, mean)) / max(1, count - 1)


def _power(covariance: Tensor, exponent: float, regularisation: float) -> Tensor:
    values, vectors = torch.linalg.eigh(covariance)
    root: Tensor = (vectors * (values.clamp_min(0) + regularisation).pow(exponent)) @ vectors.mT
    return root
