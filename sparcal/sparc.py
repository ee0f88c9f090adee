"""SPARC: per-cell subspace projection fitted on the k normals of a lot, Eqs. 2-8 of the paper.

At every grid cell the k calibration features disagree within a subspace of at most k - 1 dimensions.
SPARC removes that subspace from every feature of the cell and leaves the rest, and the mean, in place:

    corrected = f - V V^T (f - mu)                                                       (Eq. 7)
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from types import ModuleType
from typing import Literal, Self, get_args

import torch
from torch import Tensor

from sparcal.compiled import compiled_module
from sparcal.errors import DataError
from sparcal.feature_checks import check_finite, check_given, check_grid, check_reference, only_grid
from sparcal.memory import mean_of_images, uninitialised
from sparcal.settings import one_of, parameters, whole_number
from sparcal.types import Features, Side, check_side, fitted, require_features

PAPER_LARGEST_K = 8
MOST_NORMALS = 32  # a lot may show; beyond the paper's 8 its own self-test is the evidence

# A direction counts as disagreement only if it is longer than this share of the raw features' length. Encoders
# compute in float32, so a shorter one is rounding; judged against the centred matrix it would always look large.
RANK_TOLERANCE = 1e-5

# Cells are worked on in blocks of about this many bytes: it bounds every temporary, and blocks that stay in the
# processor's cache are worked on several times as fast.
CHUNK_BYTES = 8 * 2**20

SMALL_BASIS = 2**19  # below this many values of a basis, compiled loops do not repay their import

Recentre = Literal["none", "cell"]


class EvidenceWarning(UserWarning):
    """A setting works but lies outside what the paper measured."""


@dataclass
class SPARC:
    """Removes, cell by cell, the subspace in which the calibration normals disagree.

    Args:
        rank: directions removed per cell, 1 or more; None is k - 1. There are no more than k - 1, so a larger rank removes
            those, with a warning (Eq. 6, Proposition 1).
        on: which side is corrected; the paper corrects both.
        recentre: "cell" first moves the reference, cell by cell, by (calibration mean - reference mean). The paper
            leaves this constant part of a shift in place; a moved camera or fixture is mostly that part.

    After `fit`: `mean_`, one (h, w, d) per level; `basis_`, one (h, w, s, d) per level, rows orthonormal or zero, by
    falling singular value; `rank_`, one (h, w) count of kept directions per level; `offset_`, one (h, w, d) per
    level if recentred, else None; `k_`.

    >>> normals = Features((torch.randn(8, 4, 4, 16),))  # k = 8 good parts, 4 x 4 cells of 16 channels
    >>> sparc = SPARC().fit(normals)
    >>> int(sparc.rank_[0].max())
    7
    >>> calm = sparc.apply(normals)  # good parts no longer differ
    >>> bool((calm.levels[0] - calm.levels[0][0]).abs().max() < 1e-4)
    True
    """

    rank: int | None = None
    on: Side = "both"
    recentre: Recentre = "none"
    mean_: tuple[Tensor, ...] | None = field(default=None, init=False, repr=False)
    basis_: tuple[Tensor, ...] | None = field(default=None, init=False, repr=False)
    rank_: tuple[Tensor, ...] | None = field(default=None, init=False, repr=False)
    offset_: tuple[Tensor, ...] | None = field(default=None, init=False, repr=False)
    k_: int | None = field(default=None, init=False, repr=False)

    get_params = parameters

    def __post_init__(self) -> None:
        check_rank(self.rank, "SPARC.rank")
        check_side(self.on, "SPARC.on")
        one_of(self.recentre, "SPARC.recentre", get_args(Recentre))

    def fit(self, calibration: Features, reference: Features | None = None) -> Self:
        """Learn mean and basis from the k calibration normals; `reference` is used by recentring only."""
        k = check_calibration(calibration, "SPARC")
        check_given(reference, "SPARC")
        rank = saturated_rank(self.rank, k)
        levels = [subspace(x, rank) for x in calibration.levels]
        self.mean_ = tuple(mean for mean, _, _ in levels)
        self.basis_ = tuple(basis for _, basis, _ in levels)
        self.rank_ = tuple(count for _, _, count in levels)
        self.offset_ = self._offset(self.mean_, reference) if self.recentre == "cell" else None
        self.k_ = k
        return self

    def apply(self, features: Features) -> Features:
        """Corrected test features; `cls` and the input stay as they are."""
        return self._project(features, None)

    def apply_reference(self, reference: Features) -> Features:
        """Corrected reference features: as `apply`, after recentring where that is on."""
        return self._project(reference, self.offset_)

    def apply_reference_rows(self, rows: Tensor, cells: Tensor) -> Tensor:
        """What `apply_reference` makes of single features (m, d) of the first level; `cells` (m,) ascend."""
        offset = None if self.offset_ is None else self.offset_[0]
        return project_rows_out(rows, cells, fitted(self, self.mean_)[0], fitted(self, self.basis_)[0], offset)

    def export_state(self) -> tuple[Tensor, Tensor, Tensor] | None:
        """Mean (h, w, d), basis (h, w, s, d) and target (h, w, d): test features become target + (I - V V^T)(f - mean).

        The target of Eq. 7 is the mean. None where the test side stays as it is.
        """
        means, bases = fitted(self, self.mean_), fitted(self, self.basis_)
        if self.on == "reference":
            return None
        mean = only_grid(means, "SPARC").float()
        return mean, bases[0].float(), mean

    def _offset(self, mean: tuple[Tensor, ...], reference: Features | None) -> tuple[Tensor, ...]:
        if reference is None:
            raise DataError("SPARC(recentre='cell') needs the reference features in fit, got none: pass reference=.")
        check_grid(reference, mean, "SPARC.fit's reference")
        check_reference(reference, "SPARC(recentre='cell')")
        before = (mean_of_images(x).to(x.dtype) for x in reference.levels)
        return tuple(mu - old for mu, old in zip(mean, before, strict=True))

    def _project(self, features: Features, offset: tuple[Tensor, ...] | None) -> Features:
        mean, basis = fitted(self, self.mean_), fitted(self, self.basis_)
        check_grid(features, mean, "SPARC.apply")
        offsets = offset or (None,) * len(features.levels)
        levels = zip(features.levels, mean, basis, offsets, strict=True)
        return Features(tuple(project_out(*level) for level in levels), features.cls)


@torch.no_grad()
def subspace(x: Tensor, rank: int) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, basis and kept rank of the disagreement at each cell, Eqs. 2-6.

    The right singular vectors of the centred k x d matrix come from the k x k Gram matrix in float64: the same
    subspace as an SVD, at a fraction of its cost. Large grids on the CPU take the compiled loops, all others torch.

    Args:
        x: (k, h, w, d).

    Returns:
        mean (h, w, d), basis (h, w, rank, d) with zero rows beyond the kept rank, kept (h, w).
    """
    _, h, w, d = x.shape
    mean = uninitialised((h * w, d), x)
    basis = uninitialised((h * w, rank, d), x)
    kept = torch.empty(h * w, dtype=torch.int64, device=x.device)
    if loops := _loops(x.numel(), x):
        out = tuple(part.numpy() for part in (mean, basis, kept))
        loops.fill_subspaces(x.detach().flatten(1, 2).numpy(), rank, RANK_TOLERANCE, out, torch.get_num_threads())
    else:
        _fill_subspaces(x, rank, (mean, basis, kept))
    return mean.unflatten(0, (h, w)), basis.unflatten(0, (h, w)), kept.unflatten(0, (h, w))


def _fill_subspaces(x: Tensor, rank: int, out: tuple[Tensor, Tensor, Tensor]) -> None:
    mean, basis, kept = out
    k, h, w, d = x.shape
    cells = x.flatten(1, 2).transpose(0, 1)  # (c, k, d)
    step = max(1, CHUNK_BYTES // (8 * k * d))
    for start in range(0, h * w, step):
        block = slice(start, start + step)
        mean[block], basis[block], kept[block] = _subspace_block(cells[block], rank)


def _subspace_block(cells: Tensor, rank: int) -> tuple[Tensor, Tensor, Tensor]:
    raw = cells.double()  # (c, k, d)
    c, k, _ = raw.shape
    # X centred is C X, with C = I - 1/k: centring the k x k matrices spares two passes over the features. In float64
    # that is safe: C G C rounds at 1e-15 of the raw squared length, and a kept direction has at least 1e-10 of it.
    centring = torch.eye(k, dtype=torch.float64, device=raw.device) - 1 / k
    gram = raw @ raw.mT
    eigenvalues, left = torch.linalg.eigh(centring @ gram @ centring)  # ascending
    length = eigenvalues.clamp_min(0).sqrt().flip(-1)[:, :rank]  # (c, rank), falling
    keep = length > RANK_TOLERANCE * gram.diagonal(dim1=-2, dim2=-1).sum(dim=-1, keepdim=True).sqrt()
    inverse = torch.where(keep, 1 / length, 0.0)
    directions = inverse[..., None] * (left.flip(-1)[..., :rank].mT @ centring)  # V^T = S^-1 U^T C X
    both = torch.cat((directions, raw.new_full((c, 1, k), 1 / k)), dim=1) @ raw  # (c, rank + 1, d): V^T, then mu
    return both[:, -1], both[:, :-1], keep.sum(dim=-1)


@torch.no_grad()
def project_out(f: Tensor, mean: Tensor, basis: Tensor, offset: Tensor | None = None) -> Tensor:
    """f - V V^T (f - mu), Eq. 7, after adding `offset` to every f where one is given.

    Args:
        f: (n, h, w, d).
        mean: (h, w, d).
        basis: (h, w, s, d), rows orthonormal or zero.
        offset: (h, w, d) or None.
    """
    out = uninitialised(f.shape, f)
    given = (f, mean, basis) if offset is None else (f, mean, basis, offset)
    # By the size of the basis, not of f: an image comes out the same alone and among others.
    if loops := _loops(basis.numel(), *given):
        shift = f.new_empty(0, f.shape[-1]) if offset is None else offset.flatten(0, 1)
        state = tuple(part.detach().numpy() for part in (mean.flatten(0, 1), basis.flatten(0, 1), shift))
        cells, filled = f.detach().flatten(1, 2).numpy(), out.flatten(1, 2).numpy()
        loops.fill_projected(cells, state, filled, torch.get_num_threads())
    else:
        _fill_projected(f, mean, basis, offset, out)
    return out


def _fill_projected(f: Tensor, mean: Tensor, basis: Tensor, offset: Tensor | None, out: Tensor) -> None:
    h, w, s, d = basis.shape
    step = max(1, CHUNK_BYTES // max(1, f.element_size() * (len(f) + s) * d))
    for start in range(0, h * w, step):
        block = slice(start, start + step)
        part = f.flatten(1, 2)[:, block].transpose(0, 1)  # (c, n, d), a view
        if offset is not None:
            part = part + offset.flatten(0, 1)[block, None]
        v = basis.flatten(0, 1)[block]  # (c, s, d), which stays in the cache for all three products
        amount = (v @ mean.flatten(0, 1)[block, :, None]).mT - part @ v.mT  # (c, n, s)
        torch.add(part, amount @ v, out=out.flatten(1, 2)[:, block].transpose(0, 1))


@torch.no_grad()
def project_rows_out(f: Tensor, cells: Tensor, mean: Tensor, basis: Tensor, offset: Tensor | None = None) -> Tensor:
    """`project_out` of single features.

    Args:
        f: (m, d).
        cells: (m,), ascending: which of the h w cells each lies in.
        mean, basis, offset: as for `project_out`.
    """
    out = uninitialised(f.shape, f)
    mean, basis = mean.flatten(0, 1), basis.flatten(0, 1)
    offset = None if offset is None else offset.flatten(0, 1)
    given = (f, mean, basis) if offset is None else (f, mean, basis, offset)
    if loops := _loops(2 * f.numel() * basis.shape[1], *given):
        shift = f.new_empty(0, f.shape[-1]) if offset is None else offset
        starts = torch.searchsorted(cells, torch.arange(len(mean) + 1)).numpy()
        state = tuple(part.detach().numpy() for part in (mean, basis, shift))
        loops.remove_from_rows(f.detach().numpy(), starts, state, out.numpy())
    else:
        _fill_projected_rows(f, cells, (mean, basis, offset), out)
    return out


def _fill_projected_rows(f: Tensor, cells: Tensor, state: tuple[Tensor, Tensor, Tensor | None], out: Tensor) -> None:
    mean, basis, offset = state
    step = max(1, CHUNK_BYTES // max(1, f.element_size() * basis[:1].numel()))
    for rows, of, target in zip(f.split(step), cells.split(step), out.split(step), strict=True):
        part = rows if offset is None else rows + offset[of]
        v = basis[of]  # (m, s, d)
        amount = v @ mean[of, :, None] - v @ part[..., None]  # (m, s, 1)
        torch.add(part, (amount.mT @ v)[:, 0], out=target)


def _loops(values: int, *tensors: Tensor) -> ModuleType | None:
    """The compiled loops, for many float32 values that lie in order in main memory; None where torch has to do."""
    plain = all(x.device.type == "cpu" and x.dtype == torch.float32 and x.is_contiguous() for x in tensors)
    return compiled_module("sparcal.sparc_kernels") if plain and values > SMALL_BASIS else None


def check_rank(rank: object, who: str) -> None:
    """Raise DataError unless `rank` can be a number of directions."""
    whole_number(rank, who, least=1, optional=True, hint="leave it None for all k - 1 directions")


def saturated_rank(rank: int | None, k: int) -> int:
    """How many directions `rank` asks for among the k - 1 that k images can disagree in."""
    if rank is not None and rank > k - 1:
        warnings.warn(
            f"SPARC.rank is {rank}, but {k} images disagree in at most {k - 1} directions: {k - 1} are removed.",
            EvidenceWarning,
            stacklevel=3,
        )
    return k - 1 if rank is None else min(rank, k - 1)


def check_calibration(calibration: Features, who: str) -> int:
    """How many calibration images there are, after checking that they can be used."""
    k = len(require_features(calibration, f"{who}'s calibration features"))
    if k == 0:
        raise DataError(f"{who} needs 2 to 8 calibration images, got an empty set: show it good parts of the lot.")
    if k < 2:
        raise DataError(f"{who} needs at least 2 calibration images, got {k}: one image has no disagreement.")
    check_finite(calibration, f"{who}'s calibration features")
    if k > MOST_NORMALS:
        warnings.warn(
            f"{who} was given {k} calibration images: that works, but a lot takes {MOST_NORMALS} at most, and the "
            f"paper's evidence ends at {PAPER_LARGEST_K}.",
            EvidenceWarning,
            stacklevel=3,
        )
    return k
