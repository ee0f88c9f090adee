"""What LotCalibrator will not do, and the sentence that says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from anomalib.data.utils.tiler import Tiler
from anomalib.models import Dfkde, Fastflow
from PIL import Image

from sparcal.errors import DataError, NotFittedError, ShapeError
from sparcal.integrations.anomalib import LotCalibrator
from sparcal.sparc import SPARC
from tests.support.anomalib_parts import (
    anomaly_dino,
    batches,
    datamodule,
    engine,
    padim,
    patchcore,
    read,
    train,
    winclip,
)


@pytest.fixture
def ready(folder: Path) -> LotCalibrator:
    calibrator = LotCalibrator(train(patchcore(), read(folder / "train")))
    calibrator.collect(batches(read(folder / "train")))
    return calibrator


def test_other_models() -> None:
    with pytest.raises(DataError, match="works with Patchcore, Padim, AnomalyDINO and WinClip, .*got Dfkde"):
        LotCalibrator(Dfkde(backbone="resnet18", layers=("layer1",), pre_trained=False))
    with pytest.raises(DataError, match="got str"):
        LotCalibrator("model.ckpt")


def test_models_trained_on_uncorrected_features_must_be_asked_for() -> None:
    with pytest.raises(DataError, match="Fastflow was trained on uncorrected features.*test_side_only=True"):
        LotCalibrator(Fastflow(pre_trained=False))
    with pytest.raises(DataError, match="Patchcore is corrected on both sides.*leave it out, or pass SPARC"):
        LotCalibrator(patchcore(), test_side_only=True)


def test_settings() -> None:
    with pytest.raises(DataError, match="There is no correction 'spark'; choose from auto, .*sparc"):
        LotCalibrator(patchcore(), correction="spark")
    with pytest.raises(DataError, match="false-reject rate must be above 0 and below 1, got 1.5"):
        LotCalibrator(patchcore(), false_reject=1.5)
    with pytest.raises(
        DataError, match="must be a name or an object with on, fit, apply and apply_reference, got 3: choose"
    ):
        LotCalibrator(patchcore(), correction=3)  # type: ignore[arg-type]


def test_unfitted_models(folder: Path) -> None:
    for make in (patchcore, padim):
        with pytest.raises(
            NotFittedError, match="calibrates a fitted model, got .* without a reference: run engine.fit"
        ):
            LotCalibrator(make()).calibrate(folder / "lot" / "good")
    with pytest.raises(NotFittedError, match="without a reference: run engine.fit first"):
        LotCalibrator(patchcore()).collect(batches(read(folder / "train")))


def test_features_that_were_never_collected(folder: Path) -> None:
    calibrator = LotCalibrator(train(patchcore(), read(folder / "train")))
    with pytest.raises(NotFittedError, match="needs the training features, which anomalib drops, got none: fit with"):
        calibrator.calibrate(folder / "lot" / "good")
    with pytest.raises(NotFittedError, match="needs the training features"):
        calibrator.save_features("unused")
    with pytest.raises(DataError, match="at least one batch of training images, got none"):
        calibrator.collect([])


def test_tiling(folder: Path, tmp_path: Path, ready: LotCalibrator) -> None:
    ready.model.model.tiler = Tiler(tile_size=32, stride=32)
    with pytest.raises(DataError, match="needs Patchcore without tiling, got a Tiler: SPARC corrects each cell"):
        ready.calibrate(folder / "lot" / "good")
    model = padim()
    model.model.tiler = Tiler(tile_size=32, stride=32)
    run = engine(tmp_path, callbacks=[LotCalibrator(model).collector()])
    with pytest.raises(DataError, match="needs Padim without tiling"):
        run.fit(model, datamodule=datamodule(folder))


@pytest.mark.usefixtures("_offline")
def test_masking(folder: Path) -> None:
    with pytest.raises(DataError, match="masking=False.*got masking=True: its background mask is a threshold"):
        LotCalibrator(anomaly_dino(masking=True)).calibrate(folder / "lot" / "good")


@pytest.mark.usefixtures("_offline")
def test_winclip_without_references(folder: Path) -> None:
    with pytest.raises(DataError, match="needs a few-shot WinClip, got k_shot=0"):
        LotCalibrator(winclip(k_shot=0)).calibrate(folder / "lot" / "good")
    with pytest.raises(NotFittedError, match="needs the reference images of WinClip, got none: run engine.fit"):
        LotCalibrator(winclip()).calibrate(folder / "lot" / "good")


@pytest.mark.usefixtures("_offline")
def test_too_few_references_for_folds(folder: Path) -> None:
    model = winclip(k_shot=2)
    model.model.setup("part", model.pre_processor.transform(read(folder / "train")[:2]))
    with pytest.raises(
        DataError, match="at least 3 training images to score them out of fold, got 2: name a correction"
    ):
        LotCalibrator(model).calibrate(folder / "lot" / "good")
    more = read(folder / "test" / "good")
    with pytest.raises(DataError, match="got 2: name a correction, and pass good images of the lot as held_out="):
        LotCalibrator(model).calibrate(folder / "lot" / "good", held_out=more)
    report = LotCalibrator(model, correction="sparc").calibrate(folder / "lot" / "good", held_out=more)
    assert report.thresholds.image.lot == 6
    assert report.self_test is None
    assert report.sentence == ("sparc is taken unchecked: 2 training images are too few to score them out of fold.")


def test_another_calibrators_model(folder: Path, ready: LotCalibrator) -> None:
    other = LotCalibrator(ready.model)
    other.collect(batches(read(folder / "train")))
    ready.calibrate(folder / "lot" / "good")
    for call in (lambda: LotCalibrator(ready.model), lambda: other.calibrate(folder / "lot" / "good")):
        with pytest.raises(
            DataError, match="starts from a Patchcore as it was trained, got one that is calibrated already"
        ):
            call()


def test_a_collector_of_another_model(folder: Path, tmp_path: Path) -> None:
    run = engine(tmp_path, callbacks=[LotCalibrator(padim()).collector()])
    with pytest.raises(DataError, match="This collector belongs to another Padim than the one in training"):
        run.fit(patchcore(), datamodule=datamodule(folder))


def test_images(folder: Path, tmp_path: Path, ready: LotCalibrator) -> None:
    good = read(folder / "lot" / "good")
    cases: list[tuple[Any, str]] = [
        (good[0], r"paths or as a floating tensor \(n, 3, H, W\) in \[0, 1\], got torch.float32 \(3, 64, 64\)"),
        ((good * 255).byte(), "got torch.uint8"),
        (good * 255, r"image tensors in \[0, 1\], got values from .*: divide by 255"),
        (good[:0], "needs 2 to 8 good images of the lot.*got an empty set"),
        (good[:1], "takes 2 to 32 good images of the lot, got 1: 8 are usually enough"),
        (good[[0] * 33], "takes 2 to 32 good images of the lot, got 33"),
        (tmp_path / "torn.png", "LotCalibrator.calibrate needs readable images, got .*torn.png: .*: export it again"),
        (folder / "nowhere", "needs image files or folders with images, got .*nowhere"),
        ([folder / "lot" / "good" / "00.png", tmp_path / "empty"], "Found 0 images"),
    ]
    (tmp_path / "empty").mkdir()
    (tmp_path / "torn.png").write_bytes((folder / "lot" / "good" / "00.png").read_bytes()[:300])
    for images, sentence in cases:
        with pytest.raises(DataError, match=sentence):
            ready.calibrate(images)
    with pytest.raises(DataError, match="got an empty set"):
        ready.calibrate(good, held_out=good[:0])


def test_images_of_another_size(folder: Path, tmp_path: Path) -> None:
    """Without a Resize in the pre-processor, sizes reach the model as they are."""
    model = train(patchcore(pre_processor=patchcore().configure_pre_processor((64, 64))), read(folder / "train"))
    calibrator = LotCalibrator(model, correction="sparc")
    calibrator.collect(batches(read(folder / "train")))
    thresholds = calibrator.calibrate(folder / "lot" / "good").thresholds
    assert thresholds.image.value > 0
    with pytest.raises(
        ShapeError, match="calibrated on a grid .* of 8x8x384, got 16x16x384: give it images of the size"
    ):
        model.model(torch.rand(1, 3, 128, 128))
    calibrator.reset()
    model.pre_processor = None
    Image.new("RGB", (96, 96)).save(tmp_path / "large.png")
    with pytest.raises(DataError, match=r"one size after the model's pre-processor, got \(64, 64\) and \(96, 96\)"):
        calibrator.calibrate([folder / "lot" / "good", tmp_path / "large.png"])


def test_test_side_correction_needs_held_out_images(folder: Path, ready: LotCalibrator) -> None:
    calibrator = LotCalibrator(ready.model, correction=SPARC(on="test"))
    calibrator.features_, calibrator.image_size_ = ready.features_, ready.image_size_
    with pytest.raises(DataError, match="test features alone needs further good images of the lot.*got no held_out="):
        calibrator.calibrate(folder / "lot" / "good")
    bank = ready.model.model.memory_bank
    calibrator.calibrate(folder / "lot" / "good", held_out=folder / "test" / "good")
    assert ready.model.model.memory_bank is bank


def test_a_bank_too_small_for_folds(folder: Path) -> None:
    model = train(patchcore(coreset_sampling_ratio=0.002), read(folder / "train"))
    calibrator = LotCalibrator(model)
    calibrator.collect(batches(read(folder / "train")))
    assert len(model.model.memory_bank) == 1
    with pytest.raises(DataError, match="A memory bank of 1 vectors is too small to be cut into folds"):
        calibrator.calibrate(folder / "lot" / "good")
