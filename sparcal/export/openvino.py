"""Writes a lot's graph as an OpenVINO file, by way of ONNX."""

from __future__ import annotations

from pathlib import Path

from sparcal.export.graph import LotGraph
from sparcal.export.lot_state import LotState
from sparcal.export.onnx import EXPORTING, write_onnx
from sparcal.export.runner import replace_constants
from sparcal.runtimes import import_extra


def write_openvino(graph: LotGraph, state: LotState, path: Path) -> None:
    """Write the graph in full precision as .xml and .bin, with a lot's state as constants, which a program may replace."""
    openvino = import_extra("openvino", EXPORTING)
    source = path.with_suffix(".onnx")
    write_onnx(graph, state, source)
    network = openvino.Core().read_model(source)
    replace_constants(network, state.arrays)  # so that they keep their names
    openvino.save_model(network, path, compress_to_fp16=False)
    for left in path.parent.glob(f"{source.name}*"):
        left.unlink()
