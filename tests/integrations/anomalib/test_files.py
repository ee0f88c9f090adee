"""Checkpoints, features on disk, and the exported forms of a calibrated model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from anomalib.deploy import ExportType, OpenVINOInferencer, TorchInferencer
from anomalib.models import Patchcore
from anomalib.models.image.padim.torch_model import PadimModel

from sparcal.errors import ArtifactError, DataError
from sparcal.integrations.anomalib import LotCalibrator, load_calibrated
from sparcal.sparc import SPARC
from sparcal.types import Correction
from tests.support.anomalib_parts import anomaly_dino, batches, engine, padim, patchcore, raw, read, train, winclip


@pytest.fixture
def lot(folder: Path) -> LotCalibrator:
    """A Patchcore calibrated to the lot."""
    return calibrate(train(patchcore(), read(folder / "train")), folder)


def calibrate(model: Any, folder: Path, correction: str | Correction = "sparc") -> LotCalibrator:
    calibrator = LotCalibrator(model, correction=correction)
    calibrator.collect(batches(read(folder / "train")))
    calibrator.calibrate(folder / "lot" / "good")
    return calibrator


def assert_same_predictions(first: Any, second: Any, folder: Path) -> None:
    images = read(folder / "test" / "bad")
    with torch.no_grad():
        a, b = first.eval()(images), second.eval()(images)
    for name in ("pred_score", "pred_label", "anomaly_map", "pred_mask"):
        assert torch.equal(getattr(a, name), getattr(b, name)), name


@pytest.mark.usefixtures("_offline")
@pytest.mark.parametrize(
    ("make", "correction"),
    [(patchcore, name) for name in ("sparc", "sparc-recentred", "mean-only", "coral", "sparc-normals")]
    + [(padim, "sparc"), (anomaly_dino, "sparc")],
)
def test_checkpoint_comes_back_calibrated(folder: Path, tmp_path: Path, make: Any, correction: str) -> None:
    model = train(make(), read(folder / "train"))
    path = calibrate(model, folder, correction=correction).save_checkpoint(tmp_path / "lot.ckpt")
    loaded = load_calibrated(make(), path)
    assert_same_predictions(model, loaded, folder)
    assert type(loaded.model) is type(model.model)


@pytest.mark.usefixtures("_offline")
def test_winclip_checkpoint_needs_no_reference_images(folder: Path, tmp_path: Path) -> None:
    model = winclip()
    model.model.setup("part", model.pre_processor.transform(read(folder / "train")[:4]))
    calibrator = LotCalibrator(model)
    calibrator.calibrate(folder / "lot" / "good")
    loaded = load_calibrated(winclip(), calibrator.save_checkpoint(tmp_path / "lot.ckpt"))
    assert_same_predictions(model, loaded, folder)


def test_engine_reads_the_checkpoint_into_a_loaded_model(lot: LotCalibrator, folder: Path, tmp_path: Path) -> None:
    path = lot.save_checkpoint(tmp_path / "lot.ckpt")
    loaded = load_calibrated(patchcore(), path)
    found = engine(tmp_path).predict(loaded, data_path=folder / "test" / "bad", ckpt_path=path)
    assert found is not None
    assert lot.report_ is not None
    expected = raw(lot.model, read(folder / "test" / "bad")).pred_score / (2 * lot.report_.thresholds.image.value)
    torch.testing.assert_close(
        torch.cat([part.pred_score for part in found]), expected.clamp(max=1), rtol=1e-4, atol=1e-4
    )


def test_validation_leaves_a_loaded_models_thresholds_alone(lot: LotCalibrator, tmp_path: Path) -> None:
    loaded = load_calibrated(patchcore(), lot.save_checkpoint(tmp_path / "lot.ckpt"))
    loaded.post_processor.on_validation_epoch_end(None, loaded)
    assert torch.equal(loaded.post_processor.image_threshold, lot.model.post_processor.image_threshold)


def test_anomalib_alone_refuses_a_calibrated_checkpoint(lot: LotCalibrator, tmp_path: Path) -> None:
    """Otherwise a corrected reference would judge uncorrected features."""
    path = lot.save_checkpoint(tmp_path / "lot.ckpt")
    with pytest.raises(RuntimeError, match="lot_correction"):
        Patchcore.load_from_checkpoint(path)


def test_bad_checkpoints_are_refused(lot: LotCalibrator, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="was expected to be a file, got none there: check the path."):
        load_calibrated(patchcore(), tmp_path / "none.ckpt")
    (tmp_path / "torn.ckpt").write_bytes(b"PK not a checkpoint")
    with pytest.raises(ArtifactError, match="is damaged, or cannot be read without running code from it"):
        load_calibrated(patchcore(), tmp_path / "torn.ckpt")
    torch.save({"weights": torch.ones(2)}, tmp_path / "other.ckpt")
    with pytest.raises(ArtifactError, match="holds no Lightning state_dict"):
        load_calibrated(patchcore(), tmp_path / "other.ckpt")
    path = lot.save_checkpoint(tmp_path / "lot.ckpt")
    other = padim()
    with pytest.raises(ArtifactError, match="does not fit this Padim: build it with the settings that were saved"):
        load_calibrated(other, path)
    assert not hasattr(other.model, "lot_correction")
    assert type(other.model) is PadimModel
    with pytest.raises(DataError, match="got one that is calibrated already: reset it, or load the trained checkpoint"):
        load_calibrated(lot.model, path)
    lot.reset()
    path = lot.save_checkpoint(tmp_path / "trained.ckpt")
    with pytest.raises(ArtifactError, match="holds no correction.*load it with Patchcore.load_from_checkpoint"):
        load_calibrated(patchcore(), path)
    assert torch.equal(Patchcore.load_from_checkpoint(path).model.memory_bank, lot.model.model.memory_bank)


def test_a_correction_of_ones_own_is_not_checkpointed_silently(folder: Path, tmp_path: Path) -> None:
    class Halved(SPARC):
        """Somebody's own correction."""

    calibrator = calibrate(train(patchcore(), read(folder / "train")), folder, correction=Halved())
    with pytest.raises(
        DataError, match="own corrections and registered ones, such as SPARC, got Halved: offer its class"
    ):
        calibrator.save_checkpoint(tmp_path / "lot.ckpt")
    assert not (tmp_path / "lot.ckpt").exists()


def test_features_on_disk_serve_a_later_lot(lot: LotCalibrator, folder: Path, tmp_path: Path) -> None:
    path = lot.save_features(tmp_path / "train.safetensors")
    later = LotCalibrator(train(patchcore(), read(folder / "train")), correction="sparc")
    later.load_features(path)
    later.calibrate(folder / "lot" / "good")
    images = read(folder / "test" / "good")
    assert torch.equal(raw(later.model, images).pred_score, raw(lot.model, images).pred_score)
    with pytest.raises(ArtifactError, match="are of a Patchcore, got a Padim to calibrate"):
        LotCalibrator(padim()).load_features(path)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ArtifactError, match="missing, damaged or not written by LotCalibrator.save_features"):
        later.load_features(path)


def test_torch_inferencer_sees_the_calibrated_model(
    lot: LotCalibrator, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRUST_REMOTE_CODE", "1")
    path = engine(tmp_path).export(lot.model, ExportType.TORCH, export_root=tmp_path)
    inferencer = TorchInferencer(path, device="cpu")
    assert_same_predictions(lot.model, inferencer.model, folder)
    lot.reset()  # the exported file stays calibrated
    assert type(inferencer.model.model).__name__ == "CorrectedPatchcore"


@pytest.mark.parametrize("make", [patchcore, padim])
def test_openvino_inferencer_sees_the_calibrated_model(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Any
) -> None:
    monkeypatch.chdir(tmp_path)  # OpenVINOInferencer writes its cache to the current folder
    model = train(make(), read(folder / "train"))
    calibrator = calibrate(model, folder)
    # Without dynamic_axes={}, anomalib 2.7 binds Patchcore's graph to batches of 2 from 256 pixels on.
    path = engine(tmp_path).export(
        model, ExportType.OPENVINO, export_root=tmp_path, input_size=(64, 64), onnx_kwargs={"dynamic_axes": {}}
    )
    # Without the hint, OpenVINO computes in 16 bits on processors that can.
    inferencer = OpenVINOInferencer(path, device="CPU", config={"INFERENCE_PRECISION_HINT": "f32"})
    compared = 0
    for image in [*read(folder / "test" / "good"), *read(folder / "lot" / "good")]:
        found = inferencer.predict(image[None])
        with torch.no_grad():
            expected = model.eval()(image[None])
        compared += 0 < float(expected.pred_score) < 1  # beyond that all scores are equal
        np.testing.assert_allclose(found.pred_score.reshape(-1), expected.pred_score.numpy().reshape(-1), atol=1e-3)
        np.testing.assert_allclose(found.anomaly_map.reshape(64, 64), expected.anomaly_map[0, 0].numpy(), atol=1e-3)
    assert compared >= 3
    calibrator.reset()
    with torch.no_grad():
        uncalibrated = model.eval()(image[None])
    assert abs(float(uncalibrated.pred_score) - float(expected.pred_score)) > 0.01
