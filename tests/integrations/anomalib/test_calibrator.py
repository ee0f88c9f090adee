"""Calibrated anomalib models against sparcal's own, and back again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from sparcal.corrections import CORRECTIONS
from sparcal.detectors.anomalydino import AnomalyDINO
from sparcal.detectors.padim import PaDiM
from sparcal.detectors.patchcore import PatchCore
from sparcal.detectors.winclip import WinCLIP
from sparcal.integrations.anomalib import LotCalibrator
from sparcal.score import score_lot
from sparcal.sparc import SPARC
from sparcal.types import Correction, Features
from tests.support.anomalib_parts import (
    anomaly_dino,
    batches,
    datamodule,
    engine,
    padim,
    patchcore,
    raw,
    read,
    same,
    state,
    train,
    winclip,
)

EXACT = "donot_use_mm_for_euclid_dist"
CORRECTED = [
    "sparc",
    "sparc-recentred",
    "coral",
    "global-subspace",
    "sparc-normals",
    SPARC(rank=2),
    SPARC(on="reference"),
]


def fitted(make: Any, folder: Path, **settings: Any) -> Any:
    return train(make(**settings), read(folder / "train"))


def calibrated(model: Any, folder: Path, correction: str | Correction = "sparc") -> LotCalibrator:
    calibrator = LotCalibrator(model, correction=correction)
    calibrator.collect(batches(read(folder / "train")))
    calibrator.calibrate(folder / "lot" / "good")
    return calibrator


def cnn_features(model: Any, images: Tensor) -> Features:
    """The features that Patchcore and Padim score, by their parts rather than by sparcal's recording."""
    inner = model.model
    with torch.no_grad():
        layers = inner.feature_extractor(model.pre_processor.transform(images))
        if hasattr(inner, "feature_pooler"):
            layers = {name: inner.feature_pooler(layer) for name, layer in layers.items()}
        return Features((inner.generate_embedding(layers).permute(0, 2, 3, 1).contiguous(),))


def three_sets(make_features: Any, folder: Path) -> dict[str, Features]:
    return {
        "test": make_features(torch.cat([read(folder / "test" / kind) for kind in ("good", "bad")])),
        "reference": make_features(read(folder / "train")),
        "calibration": make_features(read(folder / "lot" / "good")),
    }


def test_images(folder: Path) -> Tensor:
    return torch.cat([read(folder / "test" / kind) for kind in ("good", "bad")])


test_images.__test__ = False  # type: ignore[attr-defined]


def own(correction: str | Correction) -> Correction:
    return CORRECTIONS[correction]() if isinstance(correction, str) else correction


def cells(model: Any, scores: Any) -> Tensor:
    """sparcal's cell scores as anomalib's own map generator draws them; the two differ in how a blur treats the border."""
    return model.model.anomaly_map_generator.blur(scores)


@pytest.mark.parametrize("correction", CORRECTED, ids=str)
def test_patchcore_scores_are_sparcals(folder: Path, correction: str | Correction) -> None:
    """With all features in the bank, from images to scores, with no state shared."""
    model = fitted(patchcore, folder, coreset_sampling_ratio=1.0)
    sets = three_sets(lambda images: cnn_features(model, images), folder)
    detector = PatchCore(coreset=1, squared=False, reweight=9)
    expected = score_lot(detector, **sets, correction=own(correction))
    calibrated(model, folder, correction)
    found = raw(model, test_images(folder))
    torch.testing.assert_close(found.pred_score, expected.image, rtol=1e-4, atol=1e-4)
    drawn = cells(model, interpolate(expected.cell[:, None], size=(64, 64)))
    torch.testing.assert_close(found.anomaly_map, drawn, rtol=1e-4, atol=1e-4)


def test_patchcore_with_coreset_scores_are_sparcals_on_its_bank(folder: Path) -> None:
    model = fitted(patchcore, folder, coreset_sampling_ratio=0.1)
    sets = three_sets(lambda images: cnn_features(model, images), folder)
    before = raw(model, test_images(folder)).pred_score
    calibrated(model, folder)
    sparc = SPARC().fit(sets["calibration"])
    rows = sparc.apply_reference(sets["reference"]).levels[0].flatten(0, 2)
    bank = model.model.memory_bank
    assert len(bank) == len(rows) // 10
    assert (
        torch.cdist(bank, rows, compute_mode=EXACT).amin(dim=1).max() < 1e-4
    )  # nothing but corrected training features
    detector = PatchCore(squared=False, reweight=9)
    detector.bank_ = bank
    expected = detector.score(sparc.apply(sets["test"])).image
    found = raw(model, test_images(folder)).pred_score
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert (found - before).abs().max() > 0.1


@pytest.mark.parametrize("correction", CORRECTED, ids=str)
def test_padim_scores_are_sparcals(folder: Path, correction: str | Correction) -> None:
    model = fitted(padim, folder)
    sets = three_sets(lambda images: cnn_features(model, images), folder)
    detector = PaDiM(dimension=20, ridge=0.01 + 1e-5)  # anomalib adds both
    expected = score_lot(detector, **sets, correction=own(correction)).cell
    calibrated(model, folder, correction)
    found = raw(model, test_images(folder))
    drawn = cells(model, interpolate(expected[:, None], size=(64, 64), mode="bilinear"))
    torch.testing.assert_close(found.anomaly_map, drawn, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found.pred_score.flatten(), drawn.flatten(1).amax(dim=1), rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("_offline")
@pytest.mark.parametrize("thinned", [False, True])
def test_anomaly_dino_scores_are_sparcals(folder: Path, thinned: bool) -> None:
    model = fitted(anomaly_dino, folder, coreset_subsampling=thinned, sampling_ratio=0.2)

    def tokens(images: Tensor) -> Features:
        cut = model.pre_processor.transform(images)[..., 2:58, 2:58]  # 60 pixels, cut to 4 patches of 14
        with torch.no_grad():
            return Features((model.model.extract_features(cut).unflatten(1, (4, 4)),))

    sets = three_sets(tokens, folder)
    calibrated(model, folder)
    sparc = SPARC().fit(sets["calibration"])
    detector = AnomalyDINO().fit(sparc.apply_reference(sets["reference"]))
    assert len(model.model.memory_bank) == (len(detector.bank_) // 5 if thinned else len(detector.bank_))
    detector.bank_ = model.model.memory_bank if thinned else detector.bank_
    expected = detector.score(sparc.apply(sets["test"])).image
    found = raw(model, test_images(folder)).pred_score.flatten()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("_offline")
def test_winclip_scores_are_sparcals(folder: Path) -> None:
    model = winclip()
    references = model.pre_processor.transform(read(folder / "train")[:4])
    model.model.setup("part", references)

    def tokens(images: Tensor) -> Features:
        with torch.no_grad():
            vector, windows, patches = model.model.encode_image(model.pre_processor.transform(images))
        return Features((patches.unflatten(1, (4, 4)),), torch.cat([vector, *(x.flatten(1) for x in windows)], dim=1))

    sets = three_sets(tokens, folder)
    sets["reference"] = sets["reference"][:4]
    detector = WinCLIP(mode="winclip_plus").with_text(model.model.text_embeddings)
    expected = score_lot(detector, **sets, correction=SPARC())
    before = raw(model, test_images(folder))
    LotCalibrator(model, correction="sparc").calibrate(folder / "lot" / "good")
    found = raw(model, test_images(folder))
    torch.testing.assert_close(found.pred_score, expected.image, rtol=1e-4, atol=1e-4)
    drawn = interpolate(expected.cell[:, None], size=(64, 64), mode="bilinear")[:, 0]
    torch.testing.assert_close(found.anomaly_map, drawn, rtol=1e-4, atol=1e-4)
    assert (found.pred_score - before.pred_score).abs().max() > 1e-4


@pytest.mark.usefixtures("_offline")
@pytest.mark.parametrize("make", [patchcore, padim, anomaly_dino, winclip])
def test_reset_restores_the_model_bit_for_bit(folder: Path, make: Any) -> None:
    model = make()
    if make is winclip:
        model.model.setup("part", model.pre_processor.transform(read(folder / "train")[:4]))
    else:
        train(model, read(folder / "train"))
    images = test_images(folder)
    scores, before = raw(model, images), state(model)
    calibrator = LotCalibrator(model)
    if make is not winclip:
        calibrator.collect(batches(read(folder / "train")))
    assert same(before, state(model))  # collecting leaves no trace
    for lot in ("good", "more"):  # a second lot starts from the model as it was trained
        calibrator.calibrate(folder / "lot" / lot)
        assert not same(before, state(model))
    calibrator.reset()
    assert same(before, state(model))
    assert calibrator.report_ is None
    again = raw(model, images)
    assert torch.equal(again.pred_score, scores.pred_score)
    assert torch.equal(again.anomaly_map, scores.anomaly_map)
    calibrator.reset()  # harmless


def test_a_second_lot_does_not_remember_the_first(folder: Path) -> None:
    model = fitted(patchcore, folder)
    calibrator = calibrated(model, folder)
    calibrator.calibrate(read(folder / "lot" / "more")[:4])
    twice = raw(model, test_images(folder)).pred_score
    other = fitted(patchcore, folder)
    calibrator = LotCalibrator(other, correction="sparc")
    calibrator.collect(batches(read(folder / "train")))
    calibrator.calibrate(read(folder / "lot" / "more")[:4])
    assert torch.equal(twice, raw(other, test_images(folder)).pred_score)


def test_calibrating_leaves_the_global_random_streams_alone(folder: Path) -> None:
    import numpy as np

    model = fitted(patchcore, folder)
    torch.manual_seed(5)
    np.random.seed(5)
    calibrated(model, folder)
    drawn = torch.rand(3), np.random.rand(3)
    torch.manual_seed(5)
    np.random.seed(5)
    assert torch.equal(drawn[0], torch.rand(3))
    assert (drawn[1] == np.random.rand(3)).all()


def test_a_failure_half_way_leaves_the_model_as_it_was(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = fitted(patchcore, folder)
    calibrator = LotCalibrator(model)
    calibrator.collect(batches(read(folder / "train")))
    before = state(model)

    def fail(*_: Any) -> None:
        raise RuntimeError("no more memory")

    monkeypatch.setattr("sparcal.integrations.anomalib.calibrator.report_of", fail)
    with pytest.raises(RuntimeError, match="no more memory"):
        calibrator.calibrate(folder / "lot" / "good")
    assert same(before, state(model))


@pytest.mark.parametrize("make", [patchcore, padim])
def test_through_the_engine(folder: Path, tmp_path: Path, make: Any) -> None:
    """Collected while fitting; engine.test, validate and predict then see the calibrated model."""
    model, data = make(), datamodule(folder)
    calibrator = LotCalibrator(model)
    run = engine(tmp_path, callbacks=[calibrator.collector()])
    run.fit(model, datamodule=data)
    before = state(model)
    assert calibrator.features_ is not None
    assert len(calibrator.features_) == 12
    kept = calibrator.features_.levels[0].flatten(1).sort(dim=0).values  # the loader shuffles
    calibrator.collect(data.train_dataloader())
    torch.testing.assert_close(calibrator.features_.levels[0].flatten(1).sort(dim=0).values, kept)

    limits = calibrator.calibrate(folder / "lot" / "good").thresholds
    thresholds = {name: value.clone() for name, value in model.post_processor.state_dict().items()}
    assert float(thresholds["_image_threshold"]) == pytest.approx(limits.image.value)
    run.validate(model, datamodule=data)
    (metrics,) = run.test(model, datamodule=data, verbose=False)
    assert 0 <= metrics["image_AUROC"] <= 1
    assert all(torch.equal(value, thresholds[name]) for name, value in model.post_processor.state_dict().items())

    predictions = run.predict(model, data_path=folder / "test" / "bad")
    expected = raw(model, read(folder / "test" / "bad")).pred_score.flatten()
    assert predictions is not None
    for found, score in zip(predictions, expected, strict=True):
        assert float(found.pred_score) == pytest.approx(min(1.0, float(score) / (2 * limits.image.value)), abs=1e-4)
        assert bool(found.pred_label) == (float(score) > limits.image.value)
    calibrator.reset()
    same_tensors = {name: value for name, value in before.items() if name.startswith("tensor")}
    after = {name: value for name, value in state(model).items() if name.startswith("tensor")}
    assert same(same_tensors, after)


@pytest.mark.usefixtures("_offline")
def test_winclip_through_the_engine(folder: Path, tmp_path: Path) -> None:
    """anomalib validates a few-shot model before each run, which would replace its thresholds."""
    model, data = winclip(), datamodule(folder)
    run = engine(tmp_path)
    run.fit(model, datamodule=data)
    assert model.model.reference_images.min() >= 0  # anomalib 2.7 leaves them as they were read; see how-to/anomalib
    model.model.setup(None, model.pre_processor.transform(model.model.reference_images))
    assert model.model.reference_images.min() < 0
    calibrator = LotCalibrator(model)
    limits = calibrator.calibrate(folder / "lot" / "good").thresholds
    run.test(model, datamodule=data, verbose=False)
    assert float(model.post_processor.image_threshold) == pytest.approx(limits.image.value)
    calibrator.reset()
    run.validate(model, datamodule=data)
    assert float(model.post_processor.image_threshold) != pytest.approx(limits.image.value)


@pytest.mark.usefixtures("_offline")
def test_anomaly_dino_through_the_engine(folder: Path, tmp_path: Path) -> None:
    model, data = anomaly_dino(), datamodule(folder)
    calibrator = LotCalibrator(model, correction="sparc-recentred")
    run = engine(tmp_path, callbacks=[calibrator.collector()])
    run.fit(model, datamodule=data)
    limits = calibrator.calibrate(folder / "lot" / "good").thresholds
    run.test(model, datamodule=data, verbose=False)
    assert float(model.post_processor.image_threshold) == pytest.approx(limits.image.value)


def test_half_precision_is_corrected_in_float32(folder: Path) -> None:
    whole, half = (fitted(patchcore, folder, precision=name) for name in ("float32", "float16"))
    for model in (whole, half):
        calibrated(model, folder)
    found = raw(half, test_images(folder).half()).pred_score.float()
    assert half.model.memory_bank.dtype == torch.float16
    assert half.model.lot_correction.mean_0.dtype == torch.float32
    torch.testing.assert_close(found, raw(whole, test_images(folder)).pred_score, rtol=0.1, atol=0.05)
