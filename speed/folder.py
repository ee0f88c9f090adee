"""A folder of images on two cores: `Lot.score` against anomalib's own predict and its OpenVINO inferencer.

All sides read the same PNG files of rendered parts, use the bundled EfficientNet-Lite0 with the same weights and the same
memory bank of a PatchCore station, and score as anomalib does, with its re-weighted image score. Ours scores a thousand
files; a peer that is slower scores the first of them, and its rate is what is compared. A graph is compiled, a model loaded
and a bank prepared before the clock starts.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from speed.measure import Cost, Row, Work, measure

CORES = 2
TRAIN, IMAGES, PEER_IMAGES, RENDERED = 200, 1000, 100, 50
TOLERANCE = 1e-3  # of a score: distances by a product against ours by differences


def prepare(folder: Path, train: int, images: int) -> None:
    """A station and the files; there are RENDERED different parts, and each is there several times."""
    from sparcal import load_host
    from sparcal.detectors import PatchCore
    from sparcal.rendering.parts import make_demo, write_png
    from sparcal.station.station import Station

    parts = make_demo(0, train=train, good=RENDERED // 2, bad=RENDERED // 2)
    encoder, _ = load_host("patchcore", encoder="bundled")
    training = [part.image for part in parts.train]
    Station.fit(training, path=folder / "station", encoder=encoder, detector=PatchCore.anomalib(), workers=CORES)
    shown = (*parts.lot_good, *parts.lot_bad)
    for number in range(images):
        path = folder / "images" / f"{number:04}.png"
        if number < len(shown):
            write_png(shown[number].image, path)
        else:
            shutil.copyfile(folder / "images" / f"{number % len(shown):04}.png", path)


def files(folder: str, n: int) -> list[Path]:
    """The first n images."""
    return sorted((Path(folder) / "images").iterdir())[:n]


def ours(folder: str, n: int) -> Work:
    """`Lot.score` by the station's own reference, one image per core at a time."""
    import torch

    from sparcal import load_host
    from sparcal.station.station import Station

    torch.set_num_threads(1)  # each of the two workers has one
    encoder, _ = load_host("patchcore", encoder="bundled")
    lot = Station.open(Path(folder) / "station", encoder=encoder, workers=CORES).own()
    lot.score(files(folder, 1))
    return Work(lambda: [one.score for one in lot.score(files(folder, n))])


def anomalib_predict(folder: str, n: int) -> Work:
    """`Engine.predict` on the files."""
    from anomalib.data import PredictDataset
    from anomalib.engine import Engine

    os.chdir(folder)  # it writes results to the current folder
    model = anomalib_patchcore(folder)
    (Path(folder) / "some").mkdir(exist_ok=True)
    for path in files(folder, n):
        (Path(folder) / "some" / path.name).hardlink_to(path)
    engine = Engine(logger=False, accelerator="cpu", devices=1, default_root_dir=folder, enable_progress_bar=False)

    def run() -> list[float]:
        found: Any = engine.predict(model=model, dataset=PredictDataset(Path(folder) / "some"))
        by_name = {
            Path(path).name: float(s)
            for batch in found
            for path, s in zip(batch.image_path, batch.pred_score, strict=True)
        }
        return [by_name[name] for name in sorted(by_name)]

    return Work(run)


def anomalib_openvino(folder: str, n: int) -> Work:
    """`OpenVINOInferencer.predict` on one file after the other."""
    from anomalib.deploy import OpenVINOInferencer

    os.chdir(folder)  # it writes its cache to the current folder
    model = anomalib_patchcore(folder)
    # Without dynamic_axes={}, anomalib 2.7 binds Patchcore's graph to batches of 2 from 256 pixels on.
    path = model.to_openvino(export_root=folder, input_size=(256, 256), onnx_kwargs={"dynamic_axes": {}})
    config = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": CORES}
    inferencer = OpenVINOInferencer(path, device="CPU", config=config)
    inferencer.predict(files(folder, 1)[0])
    return Work(lambda: [float(np.ravel(inferencer.predict(path).pred_score)[0]) for path in files(folder, n)])


def anomalib_patchcore(folder: str) -> Any:
    """anomalib's model with our network, our preprocessing and the station's bank."""
    from anomalib.models import Patchcore
    from anomalib.pre_processing import PreProcessor
    from torchvision.transforms.v2 import Compose, Normalize, Resize

    from sparcal import load_host
    from sparcal.station.station import Station
    from speed.whole_lot import anomalib_model

    encoder, _ = load_host("patchcore", encoder="bundled")
    transform = Compose([Resize((256, 256), antialias=True), Normalize([0.5] * 3, [0.5] * 3)])
    model = Patchcore(
        backbone="tf_efficientnet_lite0",
        layers=["blocks.2", "blocks.4"],
        pre_trained=False,
        pre_processor=PreProcessor(transform=transform),
        post_processor=False,
        evaluator=False,
        visualizer=False,
    )
    model.model = anomalib_model(encoder).eval()
    detector: Any = Station.open(Path(folder) / "station", encoder=encoder).detector
    model.model.memory_bank = detector.bank_
    return model.eval()


def rows(*, quick: bool = False) -> list[Row]:
    """One row per peer."""
    train, images, few = (20, 20, 10) if quick else (TRAIN, IMAGES, PEER_IMAGES)
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder), train, images)
        cost, scores = measure(ours, folder, images, threads=CORES, repeats=1, limit=600)
        found = []
        for side, title in (
            (anomalib_predict, "anomalib Engine.predict"),
            (anomalib_openvino, "anomalib OpenVINOInferencer"),
        ):
            theirs, expected = measure(side, folder, few, threads=CORES, repeats=1, limit=600)
            found.append(_row(cost, images, theirs.times(images / few), few, title, scores[:few], expected))
        return found


def _row(cost: Cost, images: int, theirs: Cost, few: int, title: str, scores: np.ndarray, expected: np.ndarray) -> Row:
    difference = float(np.abs(scores / expected - 1).max())
    return Row(
        path=f"a folder of {images:,} images, two cores",
        peer=title,
        ours=cost,
        theirs=theirs,
        measured=theirs.wall_s / cost.wall_s,
        goal=None,
        agree=difference <= TOLERANCE,
        agreement=f"image scores differ by {difference:.0e} of themselves at most",
        threads=CORES,
        note=f"{images / cost.wall_s:.1f} against {images / theirs.wall_s:.1f} images per second; the peer scored {few} of them",
    )
