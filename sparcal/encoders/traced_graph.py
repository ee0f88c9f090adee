"""A network traced by PyTorch: as an ONNX file, or compiled for one input size by OpenVINO or onnxruntime.

Compiled graphs compute in float32 with torch's number of threads for each caller, and several threads may call one.
"""

from __future__ import annotations

import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sparcal.errors import DataError
from sparcal.runtimes import CompiledRuntime, import_extra
from sparcal.threads import core_count

OPSET = 20

CompiledGraph = Callable[[NDArray[np.float32]], list[NDArray[np.float32]]]


def compile_graph(network: nn.Module, size: tuple[int, int], runtime: CompiledRuntime, *, of: str) -> CompiledGraph:
    """The function from the pixels of one image, (1, 3, H, W), to the network's outputs.

    Args:
        of: what is compiled, for sentences.
    """
    example = torch.zeros(1, 3, *size)
    return _openvino(network, example, of) if runtime == "openvino" else _onnxruntime(network, example, of)


def save_onnx(
    network: nn.Module,
    pixels: Tensor,
    path: Path,
    *,
    inputs: Sequence[str],
    outputs: Sequence[str],
    of: str,
    state: Mapping[str, Mapping[str, Tensor]] | None = None,
    free_axes: Mapping[str, Any] | None = None,
) -> None:
    """Write a network as an ONNX file, its weights beside it.

    Args:
        pixels: an example.
        of: what is traced, for sentences.
        state: further arguments of the network, by name.
        free_axes: lengths that may differ from the example's, as `torch.onnx.export` takes `dynamic_shapes`.
    """
    import_extra("onnxscript", "Tracing a graph")
    with _tracing(of):
        # Traced here and not by torch.onnx, whose way of it is another in every version, and in torch 2.8 fixes the batch.
        program = torch.export.export(
            network,
            (pixels,),
            kwargs=None if state is None else dict(state),
            dynamic_shapes=None if free_axes is None else dict(free_axes),
            strict=False,
        )
        written: Any = torch.onnx.export(
            program,
            dynamo=True,
            opset_version=OPSET,
            input_names=list(inputs),
            output_names=list(outputs),
            verbose=False,
        )
    written.save(path, external_data=True)


@contextmanager
def _tracing(of: str) -> Iterator[None]:
    """Tracers warn about their own internals, and raise whatever their stages raise."""
    with warnings.catch_warnings(), torch.inference_mode(False), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            yield
        except Exception as error:
            reason = str(error.__cause__ or error).strip().split("\n")[0]
            raise DataError(f"{of} cannot be exported: {reason.rstrip('.')}.") from error


def _drop_whole_slices(graph: torch.fx.Graph) -> None:
    """Take out slices of everything: torch 2.8 writes one for the colon of x[:, 0], and OpenVINO 2025.4 cannot read it."""
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.slice.Tensor):
        if len(node.args) == 1 and not node.kwargs:
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)


def _openvino(network: nn.Module, example: Tensor, of: str) -> CompiledGraph:
    openvino = import_extra("openvino", "The runtime openvino")
    with _tracing(of):
        program = torch.export.export(network, (example,))
        _drop_whole_slices(program.graph)
        graph = openvino.convert_model(program)
    threads = torch.get_num_threads()
    streams = max(1, core_count() // threads)  # callers that are served at once
    settings = {
        "INFERENCE_PRECISION_HINT": "f32",  # otherwise processors that have 16-bit floats compute in them
        "NUM_STREAMS": streams,
        "INFERENCE_NUM_THREADS": streams * threads,
    }
    compiled = openvino.Core().compile_model(graph, "CPU", settings)
    own = threading.local()  # a request must not be used by two threads

    def run(pixels: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        if not hasattr(own, "request"):
            own.request = compiled.create_infer_request()
        results = own.request.infer({0: pixels})
        return [results[output] for output in compiled.outputs]

    return run


def _onnxruntime(network: nn.Module, example: Tensor, of: str) -> CompiledGraph:
    onnxruntime = import_extra("onnxruntime", "The runtime onnx")
    import_extra("onnx", "The runtime onnx")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = torch.get_num_threads()  # one means the caller's own
    options.inter_op_num_threads = 1
    options.add_session_config_entry(
        "session.intra_op.allow_spinning", "0"
    )  # a waiting thread leaves its core to others
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "traced.onnx"
        save_onnx(network, example, path, inputs=["pixels"], outputs=[], of=of)
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def run(pixels: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        outputs: list[NDArray[np.float32]] = session.run(None, {"pixels": pixels})
        return outputs

    return run
