"""Thresholds of calibrated models against slow, obvious rebuilds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from sparcal.calibration.thresholds import find_threshold
from sparcal.detectors.padim import PaDiM
from sparcal.errors import DataError
from sparcal.integrations.anomalib import LotCalibrator
from sparcal.integrations.anomalib.bank import find_rows, kept_rows
from sparcal.sparc import SPARC
from sparcal.types import Features
from tests.support.anomalib_parts import batches, padim, patchcore, raw, read, train


def collected(model: Any, folder: Path, **settings: Any) -> LotCalibrator:
    calibrator = LotCalibrator(train(model, read(folder / "train")), **settings)
    calibrator.collect(batches(read(folder / "train")))
    return calibrator


def test_padim_thresholds_come_from_folds_and_left_out_images(folder: Path) -> None:
    """Every good part is scored by sparcal's own PaDiM, fitted anew each time, and drawn by anomalib."""
    calibrator = collected(padim(), folder, folds=3, false_reject=0.2)
    model, reference = calibrator.model, calibrator.features_
    assert reference is not None
    calibration = calibrator._encode(calibrator._prepared(folder / "lot" / "good", "test"))
    thresholds = calibrator.calibrate(folder / "lot" / "good")

    def worst(test: Features, normal: Features) -> float:
        cell = PaDiM(dimension=20, ridge=0.01 + 1e-5).fit(normal).score(test).cell
        generator = model.model.anomaly_map_generator
        return float(generator.blur(generator.up_sample(cell[:, None], (64, 64))).max())

    sparc = SPARC().fit(calibration)
    corrected = sparc.apply_reference(reference)
    own = [worst(corrected[[i]], corrected[[j for j in range(12) if j % 3 != i % 3]]) for i in range(12)]
    lot = []
    for left in range(6):
        without = SPARC().fit(calibration[[i for i in range(6) if i != left]])
        lot.append(worst(without.apply(calibration[[left]]), without.apply_reference(reference)))
    expected = find_threshold(own, lot, 0.2)
    assert thresholds.image.value == pytest.approx(expected.value, rel=1e-4)
    assert (thresholds.image.own, thresholds.image.lot, thresholds.image.basis) == (12, 6, expected.basis)
    assert thresholds.pixel.value == pytest.approx(expected.value, rel=1e-4)  # Padim's image score is its largest pixel


def test_patchcore_folds_never_see_their_own_images(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calibrator = collected(patchcore(), folder, folds=4)
    banks: list[tuple[torch.Tensor, torch.Tensor]] = []
    kept = kept_rows

    def watched(rows: torch.Tensor, chosen: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        bank = kept(rows, chosen, out)
        cells = rows.unflatten(0, (len(out), -1))
        banks.append((torch.cdist(bank, cells[out].flatten(0, 1)), out))
        return bank

    monkeypatch.setattr("sparcal.integrations.anomalib.adapters.kept_rows", watched)
    calibrator.calibrate(folder / "lot" / "good")
    folds = [out for _, out in banks[:4]]
    assert torch.stack(folds).sum(dim=0).tolist() == [1] * 12
    assert all(not out.any() for _, out in banks[4:])  # the lot's own images are left out of the fit instead
    assert len(banks) == 4 + 6
    assert all(gaps.min() > 0 for gaps, out in banks[:4])


def test_held_out_images_decide_alone(folder: Path) -> None:
    calibrator = collected(patchcore(), folder, false_reject=0.2)
    thresholds = calibrator.calibrate(folder / "lot" / "good", held_out=folder / "lot" / "more")
    scores = raw(calibrator.model, read(folder / "lot" / "more"))
    expected = find_threshold([], scores.pred_score.tolist(), 0.2)
    assert thresholds.image.value == pytest.approx(expected.value)
    assert thresholds.image.free
    assert thresholds.pixel.value == pytest.approx(sorted(scores.anomaly_map.flatten(1).amax(dim=1).tolist())[8])


def test_two_images_calibrate_with_the_training_images_threshold(folder: Path) -> None:
    thresholds = collected(patchcore(), folder).calibrate(read(folder / "lot" / "good")[:2])
    assert (thresholds.image.own, thresholds.image.lot, thresholds.image.basis) == (12, 0, "own")


def test_a_fixed_rank_is_kept_within_what_a_left_out_fit_can_have(folder: Path) -> None:
    calibrator = collected(patchcore(), folder, correction=SPARC(rank=2))
    assert calibrator.calibrate(read(folder / "lot" / "good")[:3]).image.lot == 3
    assert calibrator.correction.rank == 2  # type: ignore[union-attr]


def test_normalised_scores_are_half_at_the_threshold(folder: Path) -> None:
    calibrator = collected(patchcore(), folder)
    thresholds = calibrator.calibrate(folder / "lot" / "good")
    images = read(folder / "test" / "good")
    with torch.no_grad():
        shown = calibrator.model(images)
    scores = raw(calibrator.model, images)
    torch.testing.assert_close(shown.pred_score, (scores.pred_score / (2 * thresholds.image.value)).clamp(0, 1))
    assert torch.equal(shown.pred_label, scores.pred_score > thresholds.image.value)
    assert torch.equal(shown.pred_mask, scores.anomaly_map > thresholds.pixel.value)


def test_a_model_without_post_processor_is_calibrated_too(folder: Path) -> None:
    calibrator = collected(patchcore(post_processor=False), folder)
    assert calibrator.calibrate(folder / "lot" / "good").image.value > 0
    calibrator.reset()


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_bank_rows_are_found_exactly(dtype: torch.dtype) -> None:
    rows = torch.randn(5000, 7, generator=torch.Generator().manual_seed(0)).to(dtype)
    picked = torch.randperm(5000, generator=torch.Generator().manual_seed(1))[:300]
    assert torch.equal(rows[find_rows(rows[picked], rows)], rows[picked])
    with pytest.raises(DataError, match="must be made of the features it was rebuilt from, got others"):
        find_rows(rows[picked] + 1, rows)
