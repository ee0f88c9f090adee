"""The distance to the nearest rows of a bank, for exported graphs: PatchCore and AnomalyDINO."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from sparcal.detectors.block_search import block_shapes, block_tensors, nearest_rows, nearest_squares, take_rows
from sparcal.detectors.export_rule import DrawMap, GraphShapes, GraphTensors
from sparcal.errors import DataError
from sparcal.imaging.maps import top_mean


@dataclass(frozen=True)
class NearestRule:
    """Distance to the nearest rows of a bank.

    Matrix products find the nearest rows, in some blocks of the bank or, with several neighbours, in all of it; the distances
    themselves are then taken from differences.

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
        return {name: shape for name, shape in block_shapes(d).items() if name in self._names}

    def score(self, level: Tensor, tensors: GraphTensors, draw: DrawMap) -> tuple[Tensor, Tensor, Tensor]:
        """Image scores (n,), cell scores (n, h, w) and maps (n, H, W) of features (n, h, w, d)."""
        n, h, w, d = level.shape
        flat = level.reshape(n * h * w, d)
        x = (normalize(flat, dim=1) if self.unit else flat) - tensors["bank_centre"]
        squares = nearest_squares(x, tensors)[:, None] if self.neighbours == 1 else self._squares(x, tensors["bank"])
        distances = squares if self.squared else squares.sqrt()
        cell = distances.mean(dim=1).reshape(n, h, w) * (0.5 if self.unit else 1.0)
        image = cell.flatten(1).amax(dim=1) if self.top is None else top_mean(cell.flatten(1), self.top)
        if self.reweight is not None:
            worst = cell.flatten(1).argmax(dim=1, keepdim=True)  # (n, 1)
            patch = x.reshape(n, h * w, d).gather(1, worst[..., None].expand(n, 1, d))[:, 0]
            image = image * _novelty(patch, tensors["bank"], self.reweight)
        return image, cell, draw(cell)

    def tensors(self, bank: Tensor, who: str) -> GraphTensors:
        """The bank (m, d) of a fitted detector by the names that `score` reads; a refusal names `who`."""
        needed = max(self.neighbours, self.reweight or 1)
        if len(bank) < needed:
            raise DataError(
                f"{who} with {needed} neighbours can be exported from a bank of at least as many rows, "
                f"got {len(bank)}: fit it on more images."
            )
        return {name: tensor for name, tensor in block_tensors(bank).items() if name in self._names}

    @property
    def _names(self) -> set[str]:
        """What several neighbours do not need, a graph must not take: it would lack the name."""
        return set(block_shapes(0)) if self.neighbours == 1 else {"bank", "bank_centre"}

    def _squares(self, x: Tensor, bank: Tensor) -> Tensor:
        """(q, k): squared distances to the nearest rows."""
        return (x[:, None] - take_rows(bank, nearest_rows(x, bank, self.neighbours))).square().sum(dim=-1)


def _novelty(patch: Tensor, bank: Tensor, b: int) -> Tensor:
    """PatchCore's weight of an image, from its worst patch (n, d); paper Eq. 7."""
    anchor = take_rows(bank, nearest_rows(patch, bank, 1)[:, 0])
    support = take_rows(bank, nearest_rows(anchor, bank, b))  # (n, b, d)
    others = torch.linalg.vector_norm(patch[:, None] - support, dim=-1)
    own = torch.linalg.vector_norm(patch - anchor, dim=-1)
    return 1 - torch.exp(own - torch.logsumexp(others, dim=1))
