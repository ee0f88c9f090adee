"""An exported lot against torch: time to judge one image, from pixels to score, verdict and map.

EfficientNet-Lite0 at 256 x 256, SPARC on 8 images, 24 training images, each on one core: the library in torch, the same
lot in onnxruntime and in OpenVINO. Every side judges the same 8 images one by one; times are per image.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np

from speed.measure import Cost, Goal, Row, Work, measure

IMAGES = 8
ENCODER = "bundled?size={size}"
TOLERANCE = 1e-3
SIZE, QUICK_SIZE = 256, 64


def prepare(name: str, size: int, folder: Path) -> None:
    """A calibrated lot: its parts for torch, its two exports, and the images, as files."""
    from sparcal import DETECTORS, SPARC, encode, load_encoder, save
    from sparcal.detectors import for_cell_pixels
    from sparcal.export.graph import LotModel
    from sparcal.export.lot import export_model
    from sparcal.export.lot_state import LotFacts
    from sparcal.rendering.parts import make_demo
    from sparcal.score import CalibratedDetector

    parts = make_demo(0, train=24, good=8 + IMAGES // 2, bad=IMAGES // 2)
    encoder = load_encoder(ENCODER.format(size=size))
    images = [part.image for part in (*parts.train, *parts.lot_good, *parts.lot_bad)]
    features = encode(encoder, images).features
    sparc = SPARC().fit(features[24:32])
    detector = for_cell_pixels(DETECTORS[name](), encoder.cell_pixels).fit(sparc.apply_reference(features[:24]))
    model = LotModel(encoder, CalibratedDetector(sparc, detector), 1.0, LotFacts("L"))
    save(sparc, folder / "correction.safetensors")
    save(detector, folder / "detector.safetensors")
    pixels = np.stack([encoder.preprocess.array(_image(image))[0] for image in images[32:]])
    np.save(folder / "pixels.npy", pixels)
    for kind in ("onnx", "openvino"):
        export_model(model, folder / kind, format=kind)


def judge_torch(folder: str, size: int) -> Work:
    import torch

    from sparcal import load, load_encoder
    from sparcal.export.graph import LotModel
    from sparcal.export.lot_state import LotFacts
    from sparcal.score import CalibratedDetector

    _one_core()
    place = Path(folder)
    correction, detector = (load(place / f"{part}.safetensors") for part in ("correction", "detector"))
    calibrated = CalibratedDetector(correction, detector)
    model = LotModel(load_encoder(ENCODER.format(size=size)), calibrated, 1.0, LotFacts("L"))
    pixels = torch.from_numpy(np.load(place / "pixels.npy"))

    def run() -> list[np.ndarray]:
        judged = (model.score(image[None]) for image in pixels)
        return [np.append(heat.numpy().ravel(), scores.image.numpy()) for scores, heat in judged]

    run()
    return Work(run)


def judge_exported(folder: str, model: str) -> Work:
    from sparcal.export.runner import open_graph

    _one_core()
    graph = open_graph(Path(folder) / model)
    pixels = np.load(Path(folder) / "pixels.npy")

    def run() -> list[np.ndarray]:
        judged = (graph(image[None]) for image in pixels)
        return [np.append(out["map"].ravel(), out["score"]) for out in judged]

    run()
    return Work(run)


def compare(name: str, size: int, *, repeats: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        prepare(name, size, Path(folder))
        torch_cost, expected = measure(judge_torch, folder, size, repeats=repeats)
        found = []
        for runtime, file in (("onnxruntime", "onnx/model.onnx"), ("OpenVINO", "openvino/model.xml")):
            cost, out = measure(judge_exported, folder, file, repeats=repeats)
            difference = float((np.abs(out - expected).max(axis=0) / np.abs(expected).max()).max())
            found.append(
                Row(
                    path=f"judge one image, {name}, {size} x {size}, {runtime}",
                    peer="torch",
                    ours=_per_image(cost),
                    theirs=_per_image(torch_cost),
                    measured=torch_cost.cpu_s / cost.cpu_s,
                    goal=Goal(1, "faster"),
                    agree=difference <= TOLERANCE,
                    agreement=f"scores and maps differ by {difference:.0e} of the largest value",
                    short="The encoder gains what the search loses: a graph compares every cell with whole blocks of rows, where compiled "
                    "loops stop at single ones.",
                    note=f"{_milliseconds(cost):.1f} ms against {_milliseconds(torch_cost):.1f} ms of CPU per image.",
                )
            )
    return found


def rows(*, quick: bool = False) -> list[Row]:
    """The rows of the speed table."""
    if quick:
        return compare("patchcore", QUICK_SIZE, repeats=2)
    return [
        row for name in ("patchcore", "padim", "subspacead", "anomalydino") for row in compare(name, SIZE, repeats=5)
    ]


def _image(pixels: np.ndarray) -> object:
    from PIL import Image

    return Image.fromarray(pixels)


def _one_core() -> None:
    """Keep this process to one core: onnxruntime and OpenVINO take as many threads as they see cores."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])


def _per_image(cost: Cost) -> Cost:
    return cost.times(1 / IMAGES)


def _milliseconds(cost: Cost) -> float:
    return 1e3 * cost.cpu_s / IMAGES
