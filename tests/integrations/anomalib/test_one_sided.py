"""Flows and distillation: test features alone, on request, with a warning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from anomalib.models import Fastflow, ReverseDistillation

from sparcal.errors import DataError
from sparcal.integrations.anomalib import LotCalibrator, load_calibrated
from sparcal.sparc import SPARC, EvidenceWarning
from sparcal.types import Features
from tests.support.anomalib_parts import SIZE, raw, read, same, state

WARNING = "was trained on uncorrected features, so only test features are corrected here; the paper corrects both sides"


def fastflow() -> Fastflow:
    torch.manual_seed(0)
    own = Fastflow.configure_pre_processor((SIZE, SIZE))
    return Fastflow(backbone="resnet18", pre_trained=False, flow_steps=1, pre_processor=own, visualizer=False).eval()


def distillation() -> ReverseDistillation:
    torch.manual_seed(0)
    own = ReverseDistillation.configure_pre_processor((SIZE, SIZE))
    return ReverseDistillation(backbone="resnet18", pre_trained=False, pre_processor=own, visualizer=False).eval()


@pytest.mark.parametrize("make", [fastflow, distillation])
def test_maps_of_the_encoder_are_corrected_and_nothing_else(folder: Path, tmp_path: Path, make: Any) -> None:
    model = make()
    images = read(folder / "test" / "bad")
    plain, before = raw(model, images), state(model)
    encoder = model.model.feature_extractor if make is fastflow else model.model.encoder

    def maps(pixels: torch.Tensor) -> Features:
        with torch.no_grad():
            found = encoder(model.pre_processor.transform(pixels))
        return Features(tuple(x.permute(0, 2, 3, 1) for x in (found.values() if isinstance(found, dict) else found)))

    expected = SPARC().fit(maps(read(folder / "lot" / "good"))).apply(maps(images))
    calibrator = LotCalibrator(model, test_side_only=True)
    with pytest.warns(EvidenceWarning, match=f"{type(model).__name__} {WARNING}"):
        report = calibrator.calibrate(folder / "lot" / "good", held_out=folder / "lot" / "more")
    for found, level in zip(maps(images).levels, expected.levels, strict=True):
        torch.testing.assert_close(found, level, rtol=1e-4, atol=1e-4)
    assert not torch.equal(raw(model, images).anomaly_map, plain.anomaly_map)
    with torch.no_grad():
        shown = model(images).pred_score
    assert ((shown >= 0) & (shown <= 1)).all()
    scores = raw(model, read(folder / "lot" / "more")).pred_score.flatten()
    assert (scores > report.thresholds.image.value).sum() == 0  # ten images cannot support 5 %: the largest counts

    loaded = load_calibrated(make(), calibrator.save_checkpoint(tmp_path / "lot.ckpt"))
    assert torch.equal(raw(loaded, images).anomaly_map, raw(model, images).anomaly_map)
    calibrator.reset()
    assert same(before, state(model))
    assert torch.equal(raw(model, images).anomaly_map, plain.anomaly_map)


def test_refusals(folder: Path) -> None:
    calibrator = LotCalibrator(fastflow(), test_side_only=True)
    with pytest.raises(DataError, match="Fastflow is corrected on the test side alone, got a call about its training"):
        calibrator.collector()
    with pytest.raises(DataError, match="test features alone needs further good images"):
        calibrator.calibrate(folder / "lot" / "good")
    recentred = LotCalibrator(fastflow(), correction="sparc-recentred", test_side_only=True)
    with pytest.raises(DataError, match="needs the reference features in fit, got none"):
        recentred.calibrate(folder / "lot" / "good", held_out=folder / "lot" / "more")
