"""What SPARC removes, in numbers: the paper's diagnostics of energy, offset, overlap and contrast (its appendix E).

Each function returns sums and counts beside the ratio, so that results of many lots can be pooled exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sparcal.errors import ShapeError
from sparcal.feature_checks import check_grid
from sparcal.imaging.preprocess import Geometry
from sparcal.sparc import SPARC
from sparcal.types import Features, fitted


@dataclass(frozen=True)
class Energy:
    """Two squared lengths, and the first one's share of their sum."""

    first: float
    second: float

    @property
    def share(self) -> float:
        """`first / (first + second)`; nan where there is no energy at all."""
        total = self.first + self.second
        return self.first / total if total > 0 else float("nan")


@dataclass(frozen=True)
class Mean:
    """A sum over cells and how many there were."""

    sum: float
    count: int

    @property
    def value(self) -> float:
        """The mean; nan if there was no cell."""
        return self.sum / self.count if self.count else float("nan")

    def __add__(self, other: Mean) -> Mean:
        return Mean(self.sum + other.sum, self.count + other.count)


@dataclass(frozen=True)
class Contrast:
    """Mean distance from the calibration mean, of anomalous and of normal cells, before and after SPARC."""

    base_anomalous: Mean
    base_normal: Mean
    sparc_anomalous: Mean
    sparc_normal: Mean

    @property
    def base(self) -> float:
        """Anomalous less normal, before SPARC."""
        return self.base_anomalous.value - self.base_normal.value

    @property
    def sparc(self) -> float:
        """Anomalous less normal, after SPARC."""
        return self.sparc_anomalous.value - self.sparc_normal.value

    def __add__(self, other: Contrast) -> Contrast:
        return Contrast(
            self.base_anomalous + other.base_anomalous,
            self.base_normal + other.base_normal,
            self.sparc_anomalous + other.sparc_anomalous,
            self.sparc_normal + other.sparc_normal,
        )


def removed_share(sparc: SPARC, features: Features, *, level: int = 0) -> Tensor:
    """rho = |V V^T g|^2 / |g|^2 with g = f - mu at every cell, (n, h, w); 0 where g is 0."""
    inside, whole = _energies(sparc, features, level)
    return torch.where(whole > 0, inside / whole.clamp_min(torch.finfo(whole.dtype).tiny), 0.0)


def dc_energy(calibration: Features, reference: Features, *, level: int = 0) -> Energy:
    """The offset of the lot's mean (DC) against the normals' disagreement about that mean, per image and cell.

    The paper prints both energies without their formula. Read here: DC is the mean over cells of
    |mean(calibration) - mean(reference)|^2, the other the mean over cells and images of |f - mean(calibration)|^2.
    """
    lot, train = calibration.levels[level].double(), reference.levels[level]
    mean = lot.mean(dim=0)
    offset = (mean - train.mean(dim=0, dtype=torch.float64)).square().sum(dim=-1).mean()
    spread = (lot - mean).square().sum(dim=-1).mean()
    return Energy(float(offset), float(spread))


def overlap(sparc: SPARC, features: Features, anomalous: Tensor, *, level: int = 0) -> Mean:
    """Mean of rho over the anomalous cells: how far defects point into the removed subspace.

    Args:
        anomalous: (n, h, w) bool, from `touched_cells`.
    """
    share = removed_share(sparc, features, level=level)
    _check_mask(share, anomalous)
    return _mean(share, anomalous)


def contrast(sparc: SPARC, features: Features, anomalous: Tensor, *, level: int = 0) -> Contrast:
    """How much farther from the calibration mean anomalous cells lie than normal ones, before and after SPARC.

    Args:
        anomalous: (n, h, w) bool, from `touched_cells`.
    """
    inside, whole = _energies(sparc, features, level)
    _check_mask(whole, anomalous)
    base, left = whole.sqrt(), (whole - inside).clamp_min(0).sqrt()
    return Contrast(_mean(base, anomalous), _mean(base, ~anomalous), _mean(left, anomalous), _mean(left, ~anomalous))


def touched_cells(mask: NDArray[np.bool_], geometry: Geometry, grid: tuple[int, int]) -> Tensor:
    """(h, w) bool: the cells whose native footprint holds at least one anomalous pixel.

    Args:
        mask: (H, W) in native pixels.
        grid: (h, w) of the features.
    """
    if mask.shape != geometry.native:
        raise ShapeError(f"The mask must have the image's native size {geometry.native}, got {mask.shape}.")
    touched = torch.zeros(grid, dtype=torch.bool)
    rows, columns = np.nonzero(mask)
    cells = [_cell_of(position, geometry, grid[axis], axis) for axis, position in enumerate((rows, columns))]
    inside = (cells[0] >= 0) & (cells[1] >= 0)
    touched[torch.from_numpy(cells[0][inside]), torch.from_numpy(cells[1][inside])] = True
    return touched


def _cell_of(pixel: NDArray[np.intp], geometry: Geometry, cells: int, axis: int) -> NDArray[np.int64]:
    """The cell along one axis that holds each native pixel's centre; -1 for pixels that the input does not show."""
    start, stop = geometry.covered[axis], geometry.covered[axis + 2]
    first, last = geometry.valid[axis], geometry.valid[axis + 2]
    place = first + (pixel + 0.5 - start) * (last - first) / (stop - start)  # in input pixels
    cell = np.floor(place * cells / geometry.input[axis]).astype(np.int64)
    return np.where((place >= first) & (place < last), np.clip(cell, 0, cells - 1), -1)


def _energies(sparc: SPARC, features: Features, level: int) -> tuple[Tensor, Tensor]:
    """|V V^T g|^2 and |g|^2 at every cell, (n, h, w), image by image."""
    means = fitted(sparc, sparc.mean_)
    check_grid(features, means, "The diagnostics")
    mean, basis = means[level], fitted(sparc, sparc.basis_)[level]
    inside, whole = [], []
    for image in features.levels[level]:
        g = image - mean
        inside.append(torch.einsum("hwsd,hwd->hws", basis, g).square().sum(dim=-1))
        whole.append(g.square().sum(dim=-1))
    return torch.stack(inside), torch.stack(whole)


def _mean(values: Tensor, where: Tensor) -> Mean:
    return Mean(float(values[where].double().sum()), int(where.sum()))


def _check_mask(values: Tensor, anomalous: Tensor) -> None:
    if anomalous.shape != values.shape or anomalous.dtype != torch.bool:
        raise ShapeError(
            f"The anomalous cells must be a bool tensor {tuple(values.shape)}, got {tuple(anomalous.shape)} "
            f"{anomalous.dtype}: stack touched_cells of every image."
        )
