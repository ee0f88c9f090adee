"""An anomalib model behind sparcal's detector protocol."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

from sparcal.calibration.held_out import make_folds
from sparcal.errors import DataError, NotFittedError
from sparcal.integrations.anomalib import LotCalibrator
from sparcal.integrations.anomalib.detector import ModelDetector, rows_without_images
from sparcal.integrations.anomalib.model_station import model_inputs
from sparcal.types import Detector, Features, keeps_rows
from tests.support.anomalib_parts import anomaly_dino, batches, padim, patchcore, raw, read, same, state, train, winclip

pytestmark = pytest.mark.usefixtures("_offline")


def ready(make: Any, folder: Path) -> tuple[LotCalibrator, ModelDetector, Features]:
    """A trained model as a detector, and its training features."""
    model = make()
    if make is winclip:
        model.model.setup("part", model.pre_processor.transform(read(folder / "train")[:4]))
        calibrator = LotCalibrator(model)
        calibrator._reference()
    else:
        calibrator = LotCalibrator(train(model, read(folder / "train")))
        calibrator.collect(batches(read(folder / "train")))
    assert calibrator.features_ is not None
    return calibrator, calibrator._detector(), calibrator.features_


@pytest.mark.parametrize("make", [patchcore, padim, anomaly_dino, winclip])
def test_scores_are_the_models_own_and_the_model_stays_as_it_is(folder: Path, make: Any) -> None:
    calibrator, detector, reference = ready(make, folder)
    images = read(folder / "test" / "bad")
    expected, before = raw(calibrator.model, images), state(calibrator.model)
    features = calibrator._encoder(calibrator.model.pre_processor.transform(images))
    assert isinstance(detector.fit_as_trained(reference), Detector)
    scores = detector.score(features)
    torch.testing.assert_close(scores.image, expected.pred_score.flatten(), rtol=1e-4, atol=1e-4)
    peaks = expected.anomaly_map.flatten(1).amax(dim=1)
    torch.testing.assert_close(scores.cell.flatten(1).amax(dim=1), peaks, rtol=1e-4, atol=1e-4)
    half = copy.copy(detector).fit(reference[: len(reference) // 2])
    assert not torch.equal(half.score(features).cell, scores.cell)
    assert torch.equal(detector.score(features).cell, scores.cell)  # each keeps a reference of its own
    assert same(before, state(calibrator.model))
    assert keeps_rows(detector) == (make is patchcore)


def test_a_cell_has_the_highest_pixel_within_it(folder: Path) -> None:
    calibrator, detector, reference = ready(patchcore, folder)
    images = read(folder / "test" / "bad")
    cell = (
        detector.fit_as_trained(reference)
        .score(calibrator._encoder(calibrator.model.pre_processor.transform(images)))
        .cell
    )
    drawn = raw(calibrator.model, images).anomaly_map[:, 0].unflatten(2, (8, 8)).unflatten(1, (8, 8))
    torch.testing.assert_close(cell, drawn.amax(dim=(2, 4)), rtol=1e-4, atol=1e-4)


def test_the_trained_bank_is_taken_over_where_it_is_made_of_the_features(folder: Path) -> None:
    calibrator, detector, reference = ready(patchcore, folder)
    bank = calibrator.model.model.memory_bank
    detector.fit_as_trained(reference)
    assert torch.equal(reference.levels[0].flatten(0, 2)[detector.rows], bank)
    other = Features((reference.levels[0] + 0.01,))  # as another batch size, or another device, would give
    redrawn = calibrator._detector().fit_as_trained(other)
    (held,) = redrawn.state_.values()  # type: ignore[union-attr]
    assert torch.equal(other.levels[0].flatten(0, 2)[redrawn.rows], held)
    assert calibrator.model.model.memory_bank is bank


def test_folds_never_see_their_own_images(folder: Path) -> None:
    calibrator, detector, reference = ready(patchcore, folder)
    inputs = model_inputs(detector.fit_as_trained(reference), calibrator._encoder, reference)
    assert inputs.folds.left_out == make_folds(padim_like(), reference).left_out
    kept = reference.levels[0].flatten(1, 2)
    for members, rows in zip(inputs.folds.left_out, inputs.folds.rows, strict=True):
        others = kept[[i for i in range(12) if i not in members]].flatten(0, 1)
        mine = [row for row in detector.rows.tolist() if row // 64 not in members]
        assert torch.equal(others[rows], kept.flatten(0, 1)[mine])
    assert len(inputs.own[0]) == 12


def padim_like() -> Any:
    """Anything without rows: folds are then the plain ones."""
    from sparcal.detectors.padim import PaDiM

    return PaDiM()


def test_rows_close_the_gaps() -> None:
    rows = torch.tensor([0, 5, 11, 3, 8])  # of images of 3 cells: 0, 1, 3, 1, 2
    assert rows_without_images(rows, [1], cells=3).tolist() == [0, 8, 5]
    assert rows_without_images(rows, [2, 0], cells=3).tolist() == [2, 5, 0]


def test_refusals(folder: Path) -> None:
    _, detector, reference = ready(patchcore, folder)
    with pytest.raises(NotFittedError, match="ModelDetector must be fitted before use"):
        detector.score(reference)
    with pytest.raises(DataError, match="ModelDetector needs reference features of normal images, got none"):
        detector.fit(None)
