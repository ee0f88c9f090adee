"""What a principal subspace leaves of each cell, for exported graphs: SubspaceAD."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from sparcal.detectors.export_rule import DrawMap, GraphShapes, GraphTensors
from sparcal.imaging.maps import top_mean


@dataclass(frozen=True)
class SubspaceRule:
    """What a principal subspace leaves of each cell, squared.

    Args:
        top: share of the map's pixels whose mean scores the image.
    """

    top: float

    def shapes(self, h: int, w: int, d: int) -> GraphShapes:  # noqa: ARG002
        """The names and shapes of the tensors for a grid of features."""
        return {"pca_mean": (d,), "pca_basis": ("r", d)}

    def score(self, level: Tensor, tensors: GraphTensors, draw: DrawMap) -> tuple[Tensor, Tensor, Tensor]:
        """Image scores (n,), cell scores (n, h, w) and maps (n, H, W) of features (n, h, w, d)."""
        z = level - tensors["pca_mean"]
        basis = tensors["pca_basis"]
        cell = (z - (z @ basis.mT) @ basis).square().sum(dim=-1)
        heat = draw(cell)
        return top_mean(heat.flatten(1), self.top), cell, heat
