"""The distance to the nearest rows of a bank, for exported graphs: PatchCore and AnomalyDINO."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from sparcal.detectors.export_rule import DrawMap, GraphShapes, GraphTensors
from sparcal.errors import DataError
from sparcal.imaging.maps import top_mean


@dataclass(frozen=True)
class NearestRule:
    """Distance to the nearest rows of a bank.

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

    def shapes(self, h: int, w: int, d: int) -> GraphShapes:  # noqa: ARG002
        """The names and shapes of the tensors for a grid of features."""
        return {"bank": ("m", d), "bank_centre": (d,), "bank_squares": ("m",)}

    def score(self, level: Tensor, tensors: GraphTensors, draw: DrawMap) -> tuple[Tensor, Tensor, Tensor]:
        """Image scores (n,), cell scores (n, h, w) and maps (n, H, W) of features (n, h, w, d)."""
        n, h, w, d = level.shape
        flat = level.reshape(n * h * w, d)
        x = (normalize(flat, dim=1) if self.unit else flat) - tensors["bank_centre"]
        rows = nearest_rows(x, tensors, self.neighbours)  # (cells, k)
        squares = (x[:, None] - take_rows(tensors["bank"], rows)).square().sum(dim=-1)
        distances = squares if self.squared else squares.sqrt()
        cell = distances.mean(dim=1).reshape(n, h, w) * (0.5 if self.unit else 1.0)
        image = cell.flatten(1).amax(dim=1) if self.top is None else top_mean(cell.flatten(1), self.top)
        if self.reweight is not None:
            worst = cell.flatten(1).argmax(dim=1, keepdim=True)  # (n, 1)
            patch = x.reshape(n, h * w, d).gather(1, worst[..., None].expand(n, 1, d))[:, 0]
            match = rows[:, :1].reshape(n, h * w).gather(1, worst)[:, 0]
            image = image * _novelty(patch, match, tensors, self.reweight)
        return image, cell, draw(cell)

    def tensors(self, bank: Tensor, who: str) -> GraphTensors:
        """The bank (m, d) of a fitted detector by the names that `score` reads; a refusal names `who`."""
        needed = max(self.neighbours, self.reweight or 1)
        if len(bank) < needed:
            raise DataError(
                f"{who} with {needed} neighbours can be exported from a bank of at least as many rows, "
                f"got {len(bank)}: fit it on more images."
            )
        centre = bank.double().mean(dim=0).float()
        centred = bank.double() - centre
        return {"bank": centred.float(), "bank_centre": centre, "bank_squares": centred.square().sum(dim=1).float()}


def nearest_rows(x: Tensor, tensors: GraphTensors, k: int) -> Tensor:
    """(q, k): the bank rows nearest to each of (q, d), both relative to the bank's centre."""
    # |x|^2 would change no order.
    order = torch.addmm(tensors["bank_squares"], x, tensors["bank"].mT, alpha=-2)
    return order.argmin(dim=1, keepdim=True) if k == 1 else order.topk(k, dim=1, largest=False).indices


def take_rows(bank: Tensor, rows: Tensor) -> Tensor:
    """(q, k, d): the bank rows that (q, k) indices name."""
    return bank.index_select(0, rows.flatten()).reshape(*rows.shape, bank.shape[1])


def _novelty(patch: Tensor, match: Tensor, tensors: GraphTensors, b: int) -> Tensor:
    """PatchCore's weight of an image, from its worst patch (n, d) and the bank row (n,) nearest to that; paper Eq. 7."""
    bank = tensors["bank"]
    anchor = bank.index_select(0, match)
    support = take_rows(bank, nearest_rows(anchor, tensors, b))  # (n, b, d)
    others = torch.linalg.vector_norm(patch[:, None] - support, dim=-1)
    own = torch.linalg.vector_norm(patch - anchor, dim=-1)
    return 1 - torch.exp(own - torch.logsumexp(others, dim=1))
