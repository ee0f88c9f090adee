"""Thresholds of calibrated models against slow, obvious rebuilds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from sparcal.calibration.defaults import FALSE_REJECT
from sparcal.calibration.thresholds import find_threshold
from sparcal.detectors.padim import PaDiM
from sparcal.integrations.anomalib import LotCalibrator
from sparcal.integrations.anomalib.bank import find_rows
from sparcal.sparc import SPARC
from sparcal.types import Features
from tests.support.anomalib_parts import batches, padim, patchcore, raw, read, train


def collected(model: Any, folder: Path, **settings: Any) -> LotCalibrator:
    calibrator = LotCalibrator(train(model, read(folder / "train")), **settings)
    calibrator.collect(batches(read(folder / "train")))
    return calibrator


def test_padim_thresholds_come_from_folds_and_left_out_images(folder: Path) -> None:
    """Every good part is scored by sparcal's own PaDiM, fitted anew each time, and drawn by anomalib."""
    calibrator = collected(padim(), folder, correction="sparc", false_reject=0.2)
    model, reference = calibrator.model, calibrator.features_
    assert reference is not None
    calibration = calibrator._encoder(model.pre_processor.transform(read(folder / "lot" / "good")))
    thresholds = calibrator.calibrate(folder / "lot" / "good").thresholds

    def worst(test: Features, normal: Features) -> float:
        cell = PaDiM(dimension=20, ridge=0.01 + 1e-5).fit(normal).score(test).cell
        generator = model.model.anomaly_map_generator
        return float(generator.blur(generator.up_sample(cell[:, None], (64, 64))).max())

    sparc = SPARC().fit(calibration)
    corrected = sparc.apply_reference(reference)
    own = [worst(corrected[[i]], corrected[[j for j in range(12) if j % 5 != i % 5]]) for i in range(12)]
    lot = []
    for left in range(6):
        without = SPARC().fit(calibration[[i for i in range(6) if i != left]])
        lot.append(worst(without.apply(calibration[[left]]), without.apply_reference(reference)))
    expected = find_threshold(own, lot, 0.2)
    assert thresholds.image.value == pytest.approx(expected.value, rel=1e-4)
    assert (thresholds.image.own, thresholds.image.lot, thresholds.image.basis) == (12, 6, expected.basis)
    assert thresholds.pixel.value == pytest.approx(expected.value, rel=1e-4)  # Padim's image score is its largest pixel


def test_the_default_rate_is_the_stations(folder: Path) -> None:
    assert LotCalibrator(patchcore()).false_reject == FALSE_REJECT
    thresholds = collected(patchcore(), folder, correction="sparc").calibrate(folder / "lot" / "good").thresholds
    assert thresholds.image.false_reject == thresholds.pixel.false_reject == FALSE_REJECT


def test_held_out_images_decide_alone(folder: Path) -> None:
    calibrator = collected(patchcore(), folder, false_reject=0.2)
    thresholds = calibrator.calibrate(folder / "lot" / "good", held_out=folder / "lot" / "more").thresholds
    scores = raw(calibrator.model, read(folder / "lot" / "more"))
    expected = find_threshold([], scores.pred_score.tolist(), 0.2)
    assert thresholds.image.value == pytest.approx(expected.value)
    assert thresholds.image.free
    assert thresholds.pixel.value == pytest.approx(sorted(scores.anomaly_map.flatten(1).amax(dim=1).tolist())[8])


def test_two_images_calibrate_with_the_training_images_threshold(folder: Path) -> None:
    thresholds = collected(patchcore(), folder).calibrate(read(folder / "lot" / "good")[:2]).thresholds
    assert (thresholds.image.own, thresholds.image.lot, thresholds.image.basis) == (12, 0, "own")


def test_a_fixed_rank_is_kept_within_what_a_left_out_fit_can_have(folder: Path) -> None:
    calibrator = collected(patchcore(), folder, correction=SPARC(rank=2))
    report = calibrator.calibrate(read(folder / "lot" / "good")[:3])
    assert report.thresholds.image.lot == 3
    assert report.correction == "SPARC"
    assert calibrator.correction.rank == 2  # type: ignore[union-attr]


def test_normalised_scores_are_half_at_the_threshold(folder: Path) -> None:
    calibrator = collected(patchcore(), folder)
    thresholds = calibrator.calibrate(folder / "lot" / "good").thresholds
    images = read(folder / "test" / "good")
    with torch.no_grad():
        shown = calibrator.model(images)
    scores = raw(calibrator.model, images)
    torch.testing.assert_close(shown.pred_score, (scores.pred_score / (2 * thresholds.image.value)).clamp(0, 1))
    assert torch.equal(shown.pred_label, scores.pred_score > thresholds.image.value)
    assert torch.equal(shown.pred_mask, scores.anomaly_map > thresholds.pixel.value)


def test_a_model_without_post_processor_is_calibrated_too(folder: Path) -> None:
    calibrator = collected(patchcore(post_processor=False), folder)
    assert calibrator.calibrate(folder / "lot" / "good").thresholds.image.value > 0
    calibrator.reset()


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_bank_rows_are_found_exactly(dtype: torch.dtype) -> None:
    rows = torch.randn(5000, 7, generator=torch.Generator().manual_seed(0)).to(dtype)
    picked = torch.randperm(5000, generator=torch.Generator().manual_seed(1))[:300]
    found = find_rows(rows[picked], rows)
    assert found is not None
    assert torch.equal(rows[found], rows[picked])
    assert find_rows(rows[picked] + 1, rows) is None
