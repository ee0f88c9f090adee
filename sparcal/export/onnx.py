"""Writes a lot's graph as an ONNX file, with the lot's tensors under their names so that they can be replaced.

torch traces the graph, onnxruntime computes once what depends on weights alone, and the lot is added last: the graph
itself is the same for every lot of a station.
"""

from __future__ import annotations

from pathlib import Path

import torch

from sparcal.encoders.traced_graph import save_onnx
from sparcal.export.graph import OUTPUTS, LotGraph
from sparcal.export.lot_state import LotState
from sparcal.runtimes import import_extra

EXPORTING = "Exporting a model"
LARGEST_FILE = 2**31 - 2**24  # a protobuf file ends at 2 GiB

# How long the axes that differ between lots are while tracing; above 1, because tracers take 1 for a constant.
_TRACED_LENGTH = {"b": 64, "m": 48, "r": 3, "s": 2}


def write_onnx(graph: LotGraph, state: LotState, path: Path) -> None:
    """Write the graph with a lot's state as default values, which a session may replace by feeding their names."""
    onnx = import_extra("onnx", EXPORTING)
    traced, folded = path.with_name("traced.onnx"), path.with_name("folded.onnx")
    _trace(graph, traced)
    _fold(traced, folded)
    proto = onnx.load(folded)
    used = {node.domain for node in proto.graph.node}
    kept = [entry for entry in proto.opset_import if entry.domain in used]
    del proto.opset_import[:]
    proto.opset_import.extend(kept)
    for name, array in state.arrays.items():
        # Filled in place: protobuf copies a tensor by serialising it, which fails beyond 2 GiB.
        tensor = proto.graph.initializer.add(name=name, dims=array.shape, raw_data=array.tobytes())
        tensor.data_type = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    for key, value in (("lot", state.facts.name or ""), ("signature", state.signature)):
        proto.metadata_props.add(key=f"sparcal.{key}", value=value)
    large = sum(len(tensor.raw_data) for tensor in proto.graph.initializer) > LARGEST_FILE
    onnx.save_model(proto, path, save_as_external_data=large, location=f"{path.name}.data", size_threshold=1024)
    for left in (*path.parent.glob("traced.*"), *path.parent.glob("folded.*")):
        left.unlink()
    onnx.checker.check_model(path)


def _trace(graph: LotGraph, path: Path) -> None:
    """The graph as the exporter writes it, with a lot's state as further inputs."""
    lengths = {letter: torch.export.Dim(letter, min=1) for letter in _TRACED_LENGTH}
    example, axes = {}, {}
    for name, shape in graph.shapes.items():
        dtype = torch.int64 if name == "channels" else torch.float32
        size = [_TRACED_LENGTH[axis] if isinstance(axis, str) else axis for axis in shape]
        example[name] = torch.zeros(size, dtype=dtype)
        axes[name] = {number: lengths[axis] for number, axis in enumerate(shape) if isinstance(axis, str)}
    save_onnx(
        graph,
        torch.zeros(2, 3, *graph.size),
        path,
        inputs=["pixels", *example],
        outputs=OUTPUTS,
        of=f"The encoder {graph.encoder.id}",
        state={"state": example},
        free_axes={"pixels": {0: torch.export.Dim("n", min=1)}, "state": axes},
    )


def _fold(source: Path, target: Path) -> None:
    """Compute once what depends on weights alone.

    A vision transformer resizes its position table in every call, and runtimes differ in how they do that.
    """
    onnxruntime = import_extra("onnxruntime", EXPORTING)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC  # still standard ONNX
    options.optimized_model_filepath = str(target)
    options.add_session_config_entry("session.optimized_model_external_initializers_file_name", f"{target.name}.data")
    onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
