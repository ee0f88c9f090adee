"""Runs an exported model on images with onnxruntime (or OpenVINO), numpy and Pillow: no torch, no OpenCV, no SciPy.

    python -m sparcal.export.lot run model.onnx part.png

Images go through the same code as in the library, so the same pixels reach the graph.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sparcal.errors import ArtifactError, DataError, SparcalError
from sparcal.export.lot_state import Arrays, LotFacts, LotState, check_fits, read_lot_state
from sparcal.files.hashing import file_digest
from sparcal.files.json_record import read_record
from sparcal.imaging.camera_format import camera_format_of, other_camera_format
from sparcal.imaging.decode import ImageSource, open_image
from sparcal.imaging.map_matrices import MapRule, draw_native, value_below
from sparcal.imaging.preprocess import Geometry, Preprocess
from sparcal.runtimes import import_extra
from sparcal.settings import file_path
from sparcal.threads import core_count

KIND = "export"
METADATA = "metadata.json"

Run = Callable[[NDArray[np.float32]], Arrays]


@dataclass(frozen=True, eq=False)
class ExportedVerdict:
    """What an exported model says about one image.

    Args:
        verdict: one of the labels in the model's metadata.
        cells: (h, w) scores on the detector's grid.
    """

    score: float
    threshold: float
    verdict: str
    cells: NDArray[np.float32]
    geometry: Geometry


@dataclass(frozen=True, eq=False)
class ExportedModel:
    """A graph ready to judge images; make one with `load_exported`.

    Args:
        run: pixels (n, 3, H, W) to the graph's outputs by name.
        labels: the verdicts, up to the threshold and above it.
        lot: whose state judges.
    """

    run: Run
    preprocess: Preprocess
    size: tuple[int, int]
    map_rule: MapRule
    labels: tuple[str, str]
    lot: LotFacts
    threshold: float

    def judge(self, source: ImageSource) -> ExportedVerdict:
        """Score and verdict of one image."""
        image = open_image(source)
        name = source if isinstance(source, Path | str) else "The image"
        reason = other_camera_format(name, camera_format_of(image), self.lot.kinds)
        if reason is not None:
            raise DataError(reason)
        pixels, geometry = self.preprocess.array(image)
        if geometry.input != self.size:
            raise DataError(
                f"This model takes an input of {self.size[0]} x {self.size[1]}, got an image of {geometry.native[0]} x "
                f"{geometry.native[1]} that gives {geometry.input[0]} x {geometry.input[1]}: "
                "use images of the shape it was calibrated on."
            )
        out = self.run(pixels[None])
        verdict = self.labels[int(out["anomalous"][0])]
        return ExportedVerdict(float(out["score"][0]), self.threshold, verdict, out["cells"][0], geometry)

    def draw(self, verdict: ExportedVerdict) -> NDArray[np.float32]:
        """The map of a judged image in its native pixels, (H, W)."""
        return draw_native(verdict.cells, self.map_rule, verdict.geometry, outside=self.outside_of(verdict))

    def outside_of(self, verdict: ExportedVerdict) -> float:
        """What a map says where the encoder never looked."""
        return value_below(verdict.cells) if self.lot.outside is None else self.lot.outside


def load_exported(path: str | Path, *, state: str | Path | None = None) -> ExportedModel:
    """A model that `sparcal export` wrote, checked against the hashes in its metadata.

    Args:
        path: model.onnx or model.xml, with metadata.json beside it.
        state: a state file of another lot, which then judges in place of the exported one.
    """
    file_path(path, "The path of an exported model")
    file_path(state, "state", optional=True)
    source = Path(path)
    if not source.is_file():
        raise ArtifactError(f"An exported model was expected at {source}, got no file there: check the path.")
    metadata = read_record(source.parent / METADATA, KIND)
    _check_files(source, metadata)
    try:
        shapes = {name: tuple(shape) for name, shape in metadata["state"].items()}
        signature, threshold = str(metadata["signature"]), float(metadata["threshold"])
        lot = LotFacts.from_json(metadata["lot"])
        preprocess, map_rule = _preprocess(metadata["preprocess"]), MapRule(**metadata["map_rule"])
        normal, anomalous = metadata["labels"]
        height, width = metadata["input_size"]
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(f"{source.parent / METADATA} lacks or mistakes {error}: export the model again.") from error
    replacement = None if state is None else read_lot_state(state)
    if replacement is not None:
        check_fits(replacement, signature, shapes)
        lot, threshold = replacement.facts, replacement.threshold
    return ExportedModel(
        run=open_graph(source, replacement),
        preprocess=preprocess,
        size=(height, width),
        map_rule=map_rule,
        labels=(normal, anomalous),
        lot=lot,
        threshold=threshold,
    )


def open_graph(path: Path, state: LotState | None = None) -> Run:
    """The function that runs a graph file, by another lot's state if one is given."""
    return _open_openvino(path, state) if path.suffix == ".xml" else _open_onnx(path, state)


def _open_onnx(path: Path, state: LotState | None) -> Run:
    onnxruntime = import_extra("onnxruntime", "Running an ONNX model")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # it warns about every tensor that a lot may replace
    # Left alone, it pins a thread to every core of the machine, also where this process may use one of them only.
    options.intra_op_num_threads = core_count()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    replaced: Arrays = {} if state is None else state.arrays

    def run(pixels: NDArray[np.float32]) -> Arrays:
        return dict(zip(names, session.run(names, {"pixels": pixels, **replaced}), strict=True))

    return run


def _open_openvino(path: Path, state: LotState | None) -> Run:
    openvino = import_extra("openvino", "Running an OpenVINO model")
    core = openvino.Core()
    graph = core.read_model(path)
    if state is not None:
        replace_constants(graph, state.arrays)
    # Otherwise processors that have 16-bit floats compute in them.
    compiled = core.compile_model(graph, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    names = [output.get_any_name() for output in compiled.outputs]

    def run(pixels: NDArray[np.float32]) -> Arrays:
        results = compiled(pixels)
        return {name: results[name] for name in names}

    return run


def replace_constants(graph: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Put a lot's tensors into an OpenVINO graph, in place of the constants of the same names."""
    import openvino

    constants = {op.get_friendly_name(): op for op in graph.get_ops() if op.get_type_name() == "Constant"}
    for name, array in arrays.items():
        if name not in constants:
            raise ArtifactError(f"The graph was expected to hold the constant {name}, got none: export it again.")
        constant = openvino.op.Constant(array)
        constant.set_friendly_name(name)
        constants[name].output(0).replace(constant.output(0))
    graph.validate_nodes_and_infer_types()


def _check_files(source: Path, metadata: dict[str, Any]) -> None:
    files = metadata.get("files", {})
    if metadata.get("model") != source.name:
        raise ArtifactError(
            f"{source.parent / METADATA} describes {metadata.get('model')}, got {source.name}: "
            "keep each exported model in a folder of its own."
        )
    for name, expected in files.items():
        path = source.parent / name
        if not path.is_file():
            raise ArtifactError(f"The exported model needs {path}, got no such file: copy the whole folder.")
        if file_digest(path) != expected:
            raise ArtifactError(
                f"{path} does not match the hash in {METADATA}, so it was changed or damaged: copy or export it again."
            )


def _preprocess(settings: dict[str, Any]) -> Preprocess:
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()
    }
    return Preprocess(**fields)


def save_map(heat: NDArray[np.float32], path: Path, *, threshold: float) -> None:
    """Write a map: .npy and .tiff hold the scores; .png is grey, with the threshold at 128 of 255."""
    suffix = path.suffix.lower()
    if suffix == ".npy":
        np.save(path, heat)
    elif suffix in {".tif", ".tiff"}:
        Image.fromarray(heat).save(path)
    elif suffix == ".png" and threshold > 0:
        grey = np.clip(heat * (128 / threshold), 0, 255)
        Image.fromarray(np.rint(grey).astype(np.uint8)).save(path)
    elif suffix == ".png":
        raise DataError(f"A grey map needs a threshold above 0, got {threshold:g}: write .npy or .tiff.")
    else:
        raise DataError(f"A map can be written as .npy, .tiff or .png, got {path.name}: choose one of these endings.")


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m sparcal.export.lot run MODEL IMAGE...`: prints one JSON object per image, returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m sparcal.export.lot", description="Runs exported models without torch."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="score images with an exported model")
    run.add_argument("model", type=Path, help="model.onnx or model.xml, with metadata.json beside it")
    run.add_argument("images", type=Path, nargs="+", metavar="IMAGE")
    run.add_argument("--state", type=Path, help="the state file of another lot")
    run.add_argument("--map", type=Path, help="write the map of the one image: .npy, .tiff or .png")
    options = parser.parse_args(arguments)
    if options.map is not None and len(options.images) > 1:
        parser.error(f"--map takes one image, got {len(options.images)}")
    try:
        model = load_exported(options.model, state=options.state)
        for path in options.images:
            verdict = model.judge(path)
            if options.map is not None:
                limit = model.lot.pixel_threshold
                save_map(model.draw(verdict), options.map, threshold=verdict.threshold if limit is None else limit)
            row = {"score": verdict.score, "threshold": verdict.threshold, "verdict": verdict.verdict}
            print(
                json.dumps({"path": str(path), **row, "lot": model.lot.name, "map": options.map and str(options.map)})
            )
    except (SparcalError, OSError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    return 0
