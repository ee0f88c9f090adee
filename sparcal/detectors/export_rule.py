"""What a detector offers if it can be exported: its scoring rule as tensor functions, and its fitted state by name.

A rule uses only its own settings and the tensors that differ from lot to lot, so that one graph serves every lot of a
station. Everything is float32, because edge runtimes have no float64, and is computed so that float32 is enough: distances are
summed from differences, and squares are never subtracted from each other, as the detectors do in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol, TypeGuard

from torch import Tensor

from sparcal.types import Detector

GraphTensors = dict[str, Tensor]
GraphShapes = dict[str, tuple[int | str, ...]]  # an axis with a letter may differ between lots
DrawMap = Callable[[Tensor], Tensor]  # cell scores (n, h, w) to maps (n, H, W)


class ExportRule(Protocol):
    """A detector's rule in an exported graph: a frozen dataclass of its settings."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def shapes(self, h: int, w: int, d: int) -> GraphShapes:
        """The names and shapes of the tensors for a grid of features."""
        ...

    def score(self, level: Tensor, tensors: GraphTensors, draw: DrawMap) -> tuple[Tensor, Tensor, Tensor]:
        """Image scores (n,), cell scores (n, h, w) and maps (n, H, W) of features (n, h, w, d)."""
        ...


class ExportableDetector(Detector, Protocol):
    """A detector that can be written into a graph."""

    def export_rule(self) -> ExportRule:
        """The rule, which the graph holds."""
        ...

    def export_state(self) -> GraphTensors:
        """The fitted state by name, in float32 (and int64 for indices), which a lot may replace."""
        ...


def is_exportable(detector: Detector) -> TypeGuard[ExportableDetector]:
    """Whether a detector has an export rule."""
    return hasattr(detector, "export_rule")


def remove_directions(f: Tensor, basis: Tensor) -> Tensor:
    """f - V^T V f at each cell, for features (n, h, w, d) and rows (h, w, s, d)."""
    n, h, w, d = f.shape
    x = f.reshape(n, h * w, d).transpose(0, 1)  # (cells, n, d): one small product per cell
    v = basis.flatten(0, 1)
    return (x - (x @ v.mT) @ v).transpose(0, 1).reshape(n, h, w, d)
