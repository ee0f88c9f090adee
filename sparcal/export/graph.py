"""The one graph that is exported: encoder, SPARC, detector, map, image score and verdict.

The graph holds what a station never changes: the encoder, the detector's rule, the matrices of the map. What a lot
decides (SPARC's mean and basis, the rebuilt reference, the threshold) enters by name, see `lot_tensors`.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from hashlib import sha256

import torch
from torch import Tensor, nn

from sparcal.detectors.export_rule import (
    ExportableDetector,
    GraphShapes,
    GraphTensors,
    is_exportable,
    remove_directions,
)
from sparcal.encoders.compiled import torch_encoder
from sparcal.encoders.placement import on_processor
from sparcal.errors import DataError, ShapeError
from sparcal.export.lot_state import LotFacts, check_shapes
from sparcal.imaging.map_matrices import input_axes
from sparcal.imaging.maps import input_map
from sparcal.score import CalibratedDetector
from sparcal.types import Correction, Detector, Encoder, Features, Scores

OUTPUTS = ("score", "anomalous", "map", "cells")


@dataclass(frozen=True, eq=False)
class LotModel:
    """Everything that judges the images of one lot, as it is exported.

    Args:
        calibrated: the correction fitted on the lot's normals, and the detector on the corrected reference.
        threshold: an image with a larger score is anomalous.
        facts: the lot's name, and what the runner must know beside the graph.
        size: (H, W) of the input, where the encoder's preprocessing leaves it open.
    """

    encoder: Encoder
    calibrated: CalibratedDetector
    threshold: float
    facts: LotFacts
    size: tuple[int, int] | None = None

    def score(self, pixels: Tensor) -> tuple[Scores, Tensor]:
        """What the library itself computes from preprocessed pixels: scores, and maps at the input's size."""
        with torch.inference_mode():
            scores = self.calibrated.score(self.encoder(pixels))
            return scores, input_map(scores.cell, self.calibrated.detector.map_rule)


class LotGraph(nn.Module):
    """From pixels and a lot's tensors to image scores, verdicts, maps and cell scores; one graph serves a whole station."""

    rows: Tensor  # Y of the map, (H, h)
    columns: Tensor  # X of the map, (W, w)

    def __init__(self, model: LotModel) -> None:
        super().__init__()
        detector = exportable(model.calibrated.detector)
        self.encoder, self.rule, self.map_rule = (
            on_processor(torch_encoder(model.encoder)),
            detector.export_rule(),
            detector.map_rule,
        )
        # An encoder is a dataclass around its network; exporters find weights only in registered modules.
        self.networks = nn.ModuleList(part for part in vars(self.encoder).values() if isinstance(part, nn.Module))
        self.size = _size(model)
        self.grid = _grid(self.encoder, self.size)
        y, x = input_axes(*self.grid[:2], self.map_rule)
        self.register_buffer("rows", torch.tensor(y, dtype=torch.float32))
        self.register_buffer("columns", torch.tensor(x, dtype=torch.float32))
        self.eval()

    @property
    def shapes(self) -> GraphShapes:
        """The names and shapes of a lot's tensors, sorted by name."""
        h, w, d = self.grid
        own: GraphShapes = {
            "sparc_basis": (h, w, "s", d),
            "sparc_mean": (h, w, d),
            "sparc_target": (h, w, d),
            "threshold": (),
        }
        return dict(sorted((own | self.rule.shapes(h, w, d)).items()))

    @property
    def signature(self) -> str:
        """A digest of everything two graphs must share for one lot's state to fit both."""
        content = {
            "tensors": list(self.shapes),
            "encoder": self.encoder.id,
            "size": self.size,
            "grid": self.grid,
            "rule": {"kind": type(self.rule).__name__, **asdict(self.rule)},
            "map_rule": asdict(self.map_rule),
        }
        return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def forward(self, pixels: Tensor, state: GraphTensors) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Scores (n,), verdicts (n,), maps (n, H, W) at the input's size and cell scores (n, h, w), as in OUTPUTS."""
        level = self.encoder(pixels).levels[0].float()
        mean = state["sparc_mean"]
        corrected = state["sparc_target"] + remove_directions(level - mean, state["sparc_basis"])  # Eq. 7
        score, cells, heat = self.rule.score(corrected, state, self._draw)
        return score, score > state["threshold"], heat, cells

    def _draw(self, cells: Tensor) -> Tensor:
        return self.rows @ cells @ self.columns.mT


def lot_tensors(graph: LotGraph, model: LotModel) -> GraphTensors:
    """What a lot decided, by the names under which `graph` takes it: float32, and int64 for indices."""
    detector = exportable(model.calibrated.detector)
    if detector.export_rule() != graph.rule or detector.map_rule != graph.map_rule:
        raise DataError(
            f"{model.facts.title} must be of the station that the graph was exported from, got another detector, "
            f"{detector}: export its graph as well."
        )
    if not math.isfinite(model.threshold):
        raise DataError(f"{model.facts.title} can be exported with a finite threshold, got {model.threshold}: set one.")
    mean, basis, target = _test_side(model.calibrated.correction, graph.grid)
    state = {
        "sparc_mean": mean,
        "sparc_basis": basis,
        "sparc_target": target,
        "threshold": torch.tensor(model.threshold, dtype=torch.float32),
        **detector.export_state(),
    }
    check_shapes({name: tuple(tensor.shape) for name, tensor in state.items()}, graph.shapes, model.facts.title)
    return {name: state[name].cpu().contiguous() for name in graph.shapes}


def exportable(detector: Detector) -> ExportableDetector:
    """`detector`, or a DataError that lists which detectors can be exported."""
    if is_exportable(detector):
        return detector
    from sparcal.detectors import DETECTORS, detector_facts

    *others, last = (facts.title for facts in map(detector_facts, sorted(DETECTORS)) if facts.exportable)
    raise DataError(
        f"{', '.join(others)} and {last} can be exported, got {type(detector).__name__}: "
        "calibrate a station of one of these hosts."
    )


def _test_side(correction: Correction, grid: tuple[int, int, int]) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, basis and target as `SPARC.export_state` gives them; zeros where the test side stays as it is."""
    offer = getattr(correction, "export_state", None)
    if offer is None:
        raise DataError(
            "An exported lot needs a correction that a graph can repeat, such as SPARC, got "
            f"{type(correction).__name__}: calibrate the lot with SPARC."
        )
    h, w, d = grid
    state: tuple[Tensor, Tensor, Tensor] | None = offer()
    return (torch.zeros(h, w, d), torch.zeros(h, w, 1, d), torch.zeros(h, w, d)) if state is None else state


def _size(model: LotModel) -> tuple[int, int]:
    fixed = model.encoder.preprocess.output_size
    if fixed is not None and model.size not in (None, fixed):
        raise DataError(f"The encoder's input is {fixed[0]} x {fixed[1]}, got size={model.size}: leave size out.")
    size = fixed or model.size
    if size is None:
        raise DataError(
            "An exported graph has one input size, got an encoder whose input follows the shape of the image: "
            "pass size=(H, W), as the lot's images give it."
        )
    return size


def _grid(encoder: Encoder, size: tuple[int, int]) -> tuple[int, int, int]:
    """(h, w, d) of the encoder's only level at that input size."""
    with torch.inference_mode():
        features: Features = encoder(torch.zeros(1, 3, *size))
    if len(features.grids) != 1:
        raise ShapeError(
            f"An exported graph works on one grid of features, got {len(features.grids)} levels: "
            "use an encoder that joins its layers into one."
        )
    return features.grids[0]
