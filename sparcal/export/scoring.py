"""The detectors that can be exported, as tensor functions of a grid of features and of what a lot decided.

Each rule has two halves. `state` turns a fitted detector into named tensors: what differs from lot to lot. `score` uses
only these names and its own settings, so that one graph serves every lot of a station.

All of it is float32, because edge runtimes have no float64, and formed so that float32 is enough: distances are summed
from differences, and squares are never subtracted from each other as the detectors do in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from sparcal.detectors import AnomalyDINO, PaDiM, PatchCore, SubspaceAD
from sparcal.detectors.padim import CHUNK_BYTES
from sparcal.errors import DataError
from sparcal.imaging.maps import top_mean
from sparcal.types import Detector, require_fitted

State = dict[str, Tensor]
Shapes = dict[str, tuple[int | str, ...]]  # an axis with a letter may differ between lots
Draw = Callable[[Tensor], Tensor]  # cell scores (n, h, w) to maps (n, H, W)


@dataclass(frozen=True)
class NearestRule:
    """Distance to the nearest rows of a bank: PatchCore and AnomalyDINO.

    The bank is kept relative to its own mean. That changes no distance, and short vectors lose fewer digits in the
    matrix product that finds the nearest rows; the distances themselves are then taken from differences.

    Args:
        unit: bring features to unit length first, and score half the squared distance, which is 1 - cosine.
        top: share of the cells whose mean scores the image; None for the largest.
        reweight: neighbours of PatchCore's re-weighted image score.
    """

    neighbours: int
    squared: bool
    unit: bool = False
    top: float | None = None
    reweight: int | None = None

    def shapes(self, h: int, w: int, d: int) -> Shapes:  # noqa: ARG002
        """The names and shapes of the state for a grid of features."""
        return {"bank": ("m", d), "bank_centre": (d,), "bank_squares": ("m",)}

    def score(self, level: Tensor, state: State, draw: Draw) -> tuple[Tensor, Tensor, Tensor]:
        """Image scores (n,), cell scores (n, h, w) and maps (n, H, W) of features (n, h, w, d)."""
        n, h, w, d = level.shape
        flat = level.reshape(n * h * w, d)
        x = (normalize(flat, dim=1) if self.unit else flat) - state["bank_centre"]
        rows = nearest_rows(x, state, self.neighbours)  # (cells, k)
        squares = (x[:, None] - take_rows(state["bank"], rows)).square().sum(dim=-1)
        distances = squares if self.squared else squares.sqrt()
        cell = distances.mean(dim=1).reshape(n, h, w) * (0.5 if self.unit else 1.0)
        image = cell.flatten(1).amax(dim=1) if self.top is None else top_mean(cell.flatten(1), self.top)
        if self.reweight is not None:
            worst = cell.flatten(1).argmax(dim=1, keepdim=True)  # (n, 1)
            patch = x.reshape(n, h * w, d).gather(1, worst[..., None].expand(n, 1, d))[:, 0]
            match = rows[:, :1].reshape(n, h * w).gather(1, worst)[:, 0]
            image = image * novelty(patch, match, state, self.reweight)
        return image, cell, draw(cell)


@dataclass(frozen=True)
class GaussianRule:
    """Mahalanobis distance to the Gaussian of each cell: PaDiM.

    Args:
        ridge: what PaDiM adds to the diagonal of every covariance.
        dimension: channels that PaDiM keeps at most.
    """

    ridge: float
    dimension: int

    def shapes(self, h: int, w: int, d: int) -> Shapes:
        """The names and shapes of the state for a grid of features."""
        c = min(self.dimension, d)
        return {"channels": (c,), "gaussian_mean": (h, w, c), "gaussian_whitener": (h, w, "r", c)}

    def score(self, level: Tensor, state: State, draw: Draw) -> tuple[Tensor, Tensor, Tensor]:
        """Image scores (n,), cell scores (n, h, w) and maps (n, H, W) of features (n, h, w, d)."""
        z = level.index_select(3, state["channels"]) - state["gaussian_mean"]
        white = remove(z, state["gaussian_whitener"]) / self.ridge**0.5
        cell = white.square().sum(dim=-1).sqrt()
        heat = draw(cell)
        return heat.flatten(1).amax(dim=1), cell, heat


@dataclass(frozen=True)
class SubspaceRule:
    """What a principal subspace leaves of each cell, squared: SubspaceAD.

    Args:
        top: share of the map's pixels whose mean scores the image.
    """

    top: float

    def shapes(self, h: int, w: int, d: int) -> Shapes:  # noqa: ARG002
        """The names and shapes of the state for a grid of features."""
        return {"pca_mean": (d,), "pca_basis": ("r", d)}

    def score(self, level: Tensor, state: State, draw: Draw) -> tuple[Tensor, Tensor, Tensor]:
        """Image scores (n,), cell scores (n, h, w) and maps (n, H, W) of features (n, h, w, d)."""
        z = level - state["pca_mean"]
        basis = state["pca_basis"]
        cell = (z - (z @ basis.mT) @ basis).square().sum(dim=-1)
        heat = draw(cell)
        return top_mean(heat.flatten(1), self.top), cell, heat


Rule = NearestRule | GaussianRule | SubspaceRule


def rule_of(detector: Detector) -> Rule:
    """How a detector stands in a graph, or a DataError for one that cannot."""
    if isinstance(detector, PatchCore):
        return NearestRule(detector.neighbours, detector.squared, reweight=detector.reweight)
    if isinstance(detector, AnomalyDINO):
        if detector.mask != "off":
            raise DataError(
                f"AnomalyDINO can be exported with mask='off', got mask={detector.mask!r}: "
                "its foreground needs a principal component per image, which no exported graph has."
            )
        return NearestRule(detector.neighbours, squared=True, unit=True, top=detector.top)
    if isinstance(detector, PaDiM):
        return GaussianRule(detector.ridge, detector.dimension)
    if isinstance(detector, SubspaceAD):
        return SubspaceRule(detector.top)
    raise DataError(
        f"AnomalyDINO, PaDiM, PatchCore and SubspaceAD can be exported, got {type(detector).__name__}: "
        "calibrate a station of one of these hosts."
    )


def state_of(detector: Detector) -> State:
    """The named tensors of a fitted detector that its rule's graph takes, in float32 (and int64 for indices)."""
    rule = rule_of(detector)
    if isinstance(detector, PatchCore | AnomalyDINO):
        assert isinstance(rule, NearestRule)
        return _bank_state(detector, rule)
    if isinstance(detector, PaDiM):
        return _gaussian_state(detector)
    assert isinstance(detector, SubspaceAD)
    require_fitted(detector, "basis_")
    assert detector.mean_ is not None
    assert detector.basis_ is not None
    basis = detector.basis_.mT.float()
    if len(basis) == 0:
        basis = basis.new_zeros(1, basis.shape[1])  # a graph needs a row; one of zeros removes nothing
    return {"pca_mean": detector.mean_.float(), "pca_basis": basis.contiguous()}


def _bank_state(detector: PatchCore | AnomalyDINO, rule: NearestRule) -> State:
    require_fitted(detector, "bank_")
    assert detector.bank_ is not None
    bank = detector.bank_.double()
    needed = max(rule.neighbours, rule.reweight or 1)
    if len(bank) < needed:
        raise DataError(
            f"{type(detector).__name__} with {needed} neighbours can be exported from a bank of at least as many rows, "
            f"got {len(bank)}: fit it on more images."
        )
    centre = bank.mean(dim=0).float()
    bank -= centre
    return {"bank": bank.float(), "bank_centre": centre, "bank_squares": bank.square().sum(dim=1).float()}


def _gaussian_state(detector: PaDiM) -> State:
    require_fitted(detector, "mean_")
    assert detector.mean_ is not None
    assert detector.channels_ is not None
    h, w, c = detector.mean_.shape
    kernel, factor = detector.kernel_, detector.factor_
    rows = c if kernel is None else kernel.shape[2] - 1  # images less their mean
    whitener = torch.empty(h * w, rows, c)
    step = max(1, CHUNK_BYTES // (8 * c * rows))
    for start in range(0, h * w, step):
        block = slice(start, start + step)
        if kernel is not None:
            whitener[block] = whitener_of_kernel(kernel.flatten(0, 1)[block])[:, :rows]
        else:
            assert factor is not None
            whitener[block] = whitener_of_factor(factor.flatten(0, 1)[block], c, detector.ridge)
    return {
        "channels": detector.channels_,
        "gaussian_mean": detector.mean_.float(),
        "gaussian_whitener": whitener.reshape(h, w, rows, c),
    }


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


def remove(f: Tensor, basis: Tensor) -> Tensor:
    """f - V^T V f at each cell, for features (n, h, w, d) and rows (h, w, s, d)."""
    n, h, w, d = f.shape
    x = f.reshape(n, h * w, d).transpose(0, 1)  # (cells, n, d): one small product per cell
    v = basis.flatten(0, 1)
    return (x - (x @ v.mT) @ v).transpose(0, 1).reshape(n, h, w, d)


def nearest_rows(x: Tensor, state: State, k: int) -> Tensor:
    """(q, k): the bank rows nearest to each of (q, d), both relative to the bank's centre."""
    # |x|^2 would change no order.
    order = torch.addmm(state["bank_squares"], x, state["bank"].mT, alpha=-2)
    return order.argmin(dim=1, keepdim=True) if k == 1 else order.topk(k, dim=1, largest=False).indices


def take_rows(bank: Tensor, rows: Tensor) -> Tensor:
    """(q, k, d): the bank rows that (q, k) indices name."""
    return bank.index_select(0, rows.flatten()).reshape(*rows.shape, bank.shape[1])


def novelty(patch: Tensor, match: Tensor, state: State, b: int) -> Tensor:
    """PatchCore's weight of an image, from its worst patch (n, d) and the bank row (n,) nearest to that; paper Eq. 7."""
    bank = state["bank"]
    anchor = bank.index_select(0, match)
    support = take_rows(bank, nearest_rows(anchor, state, b))  # (n, b, d)
    others = torch.linalg.vector_norm(patch[:, None] - support, dim=-1)
    own = torch.linalg.vector_norm(patch - anchor, dim=-1)
    return 1 - torch.exp(own - torch.logsumexp(others, dim=1))
