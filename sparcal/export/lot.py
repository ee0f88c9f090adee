"""Exports a calibrated lot as one ONNX or OpenVINO graph, and further lots as small state files for the same graph.

    folder/model.onnx       pixels (n, 3, H, W) to score, anomalous, map and cells; holds the lot it was exported for
    folder/metadata.json    what the pixels must be, what the outputs mean, hashes and versions

A graph over 2 GB keeps its weights beside it, in model.onnx.data. For OpenVINO the model is model.xml and model.bin.

This module imports nothing heavy, because `python -m sparcal.export.lot run` starts here on machines without torch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from sparcal.errors import ArtifactError, DataError, PlaceError
from sparcal.export import runner
from sparcal.export.lot_state import LotFacts, LotState, write_lot_state
from sparcal.files.atomic import passing_folder, require_file_place, require_folder_place, settle
from sparcal.files.full_disk import needs_room, require_free_room
from sparcal.files.hashing import file_digest
from sparcal.files.json_record import write_record
from sparcal.settings import file_path, instance_of, one_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from sparcal.export.graph import LotGraph, LotModel
    from sparcal.imaging.camera_format import CameraFormat
    from sparcal.imaging.preprocess import Preprocess
    from sparcal.station.lot import Lot

Format = Literal["onnx", "openvino"]

LABELS = ("pass", "fail")
MODEL_FILES: dict[Format, str] = {"onnx": "model.onnx", "openvino": "model.xml"}
TOLERANCE = 1e-3  # share of the largest value by which an exported model may differ from the library


def export_lot(lot: Lot, target: str | Path, *, format: Format | Literal["state"] = "onnx") -> Path:
    """Write a lot of a station; returns the path of the model or state file.

    Args:
        target: a folder; with "state", the file to write.
        format: "state" writes the lot alone, for graphs of the same station that were exported before.
    """
    from sparcal.export.probe import probe_images
    from sparcal.station.lot import Lot

    instance_of(lot, "export_lot's lot", Lot, hint="it comes from Station.lot or Station.calibrate")
    one_of(format, "The format of an export", (*MODEL_FILES, "state"))
    file_path(target, "The target of an export")
    _require_place(Path(target), format)  # before minutes of work, not after
    model, probe = lot_model(lot), probe_images(lot)
    if format == "state":
        return export_state(model, target, probe=probe)
    return export_model(model, target, format=format, probe=probe)


def lot_model(lot: Lot) -> LotModel:
    """A lot of a station in the form that is exported."""
    from sparcal.export.graph import LotModel

    record, encoder = lot.record, lot.station.encoder
    return LotModel(
        encoder=encoder,
        calibrated=lot.calibrated,
        threshold=lot.threshold.value,
        facts=LotFacts(lot.name, lot.pixel_threshold.value, record.outside, record.kinds),
        size=_input_size(encoder.preprocess, record.kinds),
    )


def export_model(model: LotModel, folder: str | Path, *, format: Format = "onnx", probe: Tensor | None = None) -> Path:
    """Write a lot's graph and metadata to `folder`, once it agrees with the library; returns the path of the model.

    Args:
        probe: preprocessed pixels (n, 3, H, W) on which the two are compared; noise where there are none.
    """
    from sparcal.export.graph import LotGraph
    from sparcal.export.onnx import write_onnx
    from sparcal.export.openvino import write_openvino

    if format not in get_args(Format):
        raise DataError(f"A model can be exported as onnx, openvino or state, got {format!r}: choose one of these.")
    graph = LotGraph(model)
    state = _lot_state(graph, model)
    require_free_room(Path(folder), _size_of(graph, state), "An exported model", "choose a folder on a larger disk")
    with _staged(Path(folder), format) as staging:
        path = staging / MODEL_FILES[format]
        if format == "onnx":
            write_onnx(graph, state, path)
        else:
            write_openvino(graph, state, path)
        difference = difference_from_library(path, model, _noise(graph) if probe is None else probe)
        content = _metadata(graph, model, state, format) | {
            "files": {file.name: file_digest(file) for file in sorted(staging.iterdir())},
            "difference_from_torch": difference,
            "compared_on": "noise" if probe is None else f"{len(probe)} images",
        }
        write_record(staging / runner.METADATA, runner.KIND, content)
    return Path(folder) / path.name


def export_state(model: LotModel, path: str | Path, *, probe: Tensor | None = None) -> Path:
    """Write a lot's state alone, for graphs of the same station that were exported before, once it agrees.

    Args:
        probe: as for `export_model`.
    """
    import torch

    from sparcal.export.graph import OUTPUTS, LotGraph, lot_tensors

    graph = LotGraph(model)
    tensors = lot_tensors(graph, model)

    def run(pixels: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
        with torch.inference_mode():
            outputs = graph(torch.from_numpy(pixels), tensors)
        return {name: values.numpy() for name, values in zip(OUTPUTS, outputs, strict=True)}

    _compare(run, model, _noise(graph) if probe is None else probe, "state")
    return write_lot_state(_lot_state(graph, model), path)


def difference_from_library(path: Path, model: LotModel, probe: Tensor) -> dict[str, float]:
    """How far each output of a graph file is from the library, relative to its largest value; too far is refused.

    One image and all of them are run, because a graph may have been traced for one batch size only.
    """
    return _compare(runner.open_graph(path), model, probe, path.suffix[1:])


def _compare(
    run: Callable[[NDArray[np.float32]], Mapping[str, NDArray[Any]]], model: LotModel, probe: Tensor, form: str
) -> dict[str, float]:
    import numpy as np

    scores, maps = model.score(probe)
    expected = {"score": scores.image.cpu().numpy(), "map": maps.cpu().numpy(), "cells": scores.cell.cpu().numpy()}
    difference = dict.fromkeys(expected, 0.0)
    for count in sorted({1, len(probe)}):
        try:
            outputs = run(probe[:count].numpy())
        except Exception as error:  # each runtime has its own error types
            reason = str(error).strip().split("\n")[0]
            raise ArtifactError(
                f"The exported graph must run on {count} images, got {reason}: this encoder cannot be exported."
            ) from error
        for name, values in expected.items():
            gap = float(np.abs(outputs[name] - values[:count]).max() / np.abs(values).max().clip(1e-12))
            difference[name] = max(difference[name], gap)
    worst = max(difference, key=lambda name: difference[name])
    if not difference[worst] <= TOLERANCE:
        raise ArtifactError(
            f"The exported {worst} must agree with the library to {TOLERANCE:g} of its largest value, "
            f"got {difference[worst]:.2g}: this station cannot be exported as {form}."
        )
    return difference


def _metadata(graph: LotGraph, model: LotModel, state: LotState, format: Format) -> dict[str, Any]:
    h, w, _ = graph.grid
    height, width = graph.size
    return {
        "model": MODEL_FILES[format],
        "labels": list(LABELS),
        "lot": asdict(model.facts),
        "threshold": state.threshold,
        "encoder": model.encoder.id,
        "detector": type(model.calibrated.detector).__name__,
        "correction": type(model.calibrated.correction).__name__,
        "preprocess": asdict(model.encoder.preprocess),
        "input_size": [height, width],
        "map_rule": asdict(graph.map_rule),
        "inputs": {"pixels": ["n", 3, height, width]},
        "outputs": {
            "score": ["n"],
            "anomalous": ["n"],
            "map": ["n", len(graph.rows), len(graph.columns)],
            "cells": ["n", h, w],
        },
        "state": {name: list(shape) for name, shape in graph.shapes.items()},
        "state_digest": state.digest,
        "signature": graph.signature,
        "versions": _versions(),
    }


def _lot_state(graph: LotGraph, model: LotModel) -> LotState:
    from sparcal.export.graph import lot_tensors

    return LotState(model.facts, graph.signature, {name: t.numpy() for name, t in lot_tensors(graph, model).items()})


def _input_size(preprocess: Preprocess, kinds: Sequence[CameraFormat]) -> tuple[int, int] | None:
    """The one input size that images of these formats give; None where they give several."""
    from PIL import Image

    sizes = {preprocess.array(Image.new("RGB", (w, h)))[1].input for h, w, _ in kinds}
    return preprocess.output_size or (sizes.pop() if len(sizes) == 1 else None)


def _size_of(graph: LotGraph, state: LotState) -> int:
    """Bytes that the exported network and the lot's tensors take."""
    weights = (*graph.parameters(), *graph.buffers())
    return sum(x.nbytes for x in weights) + sum(x.nbytes for x in state.arrays.values())


def _noise(graph: LotGraph) -> Tensor:
    import torch

    return torch.randn(3, 3, *graph.size, generator=torch.Generator().manual_seed(0))


def _require_place(target: Path, format: Format | Literal["state"]) -> None:
    """Refuse a target where such an export cannot be."""
    if format == "state":
        if target.is_dir():
            raise PlaceError(f"A lot's state is one file, got the folder {target}: name a file in it.")
        require_file_place(target)
        require_folder_place(target.parent, "A lot's state")
        return
    require_folder_place(target, "An export")
    other = next(
        (name for name in MODEL_FILES.values() if name != MODEL_FILES[format] and (target / name).exists()), None
    )
    if other is not None:
        raise PlaceError(
            f"Each exported model needs a folder of its own, got {target} with {other} in it: choose another place."
        )


@contextmanager
def _staged(folder: Path, format: Format) -> Iterator[Path]:
    """A temporary folder whose files move into `folder` when the block ends well, the metadata last."""
    _require_place(folder, format)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with needs_room(folder), passing_folder(folder, "export") as staging:
            yield staging
            for path in sorted(staging.iterdir(), key=lambda path: path.name == runner.METADATA):
                settle(path, 0o644)
                path.replace(folder / path.name)
    finally:
        with suppress(OSError):
            folder.rmdir()  # succeeds only if the folder is still empty


def _versions() -> dict[str, str]:
    from sparcal.files.versions import versions

    installed = versions()
    for package in ("onnx", "onnxscript", "onnxruntime", "openvino"):
        with suppress(PackageNotFoundError):
            installed[package] = version(package)
    return installed


if __name__ == "__main__":
    sys.exit(runner.main())
