"""What planted defects decide for an anomalib model, and what is said about it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from sparcal.calibration.selection import candidates
from sparcal.calibration.thresholds import find_threshold
from sparcal.errors import DataError
from sparcal.integrations.anomalib import LotCalibrator, LotReport
from sparcal.sparc import SPARC
from tests.support.anomalib_parts import batches, padim, patchcore, raw, read, train


def collected(make: Any, folder: Path, **settings: Any) -> LotCalibrator:
    calibrator = LotCalibrator(train(make(), read(folder / "train")), **settings)
    calibrator.collect(batches(read(folder / "train")))
    return calibrator


@pytest.fixture(scope="module")
def auto(folder: Path) -> tuple[LotCalibrator, LotReport]:
    """A Padim calibrated to the lot with nothing asked for."""
    calibrator = collected(padim, folder)
    return calibrator, calibrator.calibrate(folder / "lot" / "good")


def test_auto_takes_what_planted_defects_favour(auto: tuple[LotCalibrator, LotReport]) -> None:
    _, report = auto
    assert [(one.correction, one.settings) for one in report.trials] == [
        (one.name, dict(one.settings)) for one in candidates(6)
    ]
    best = max(one.stands_out for one in report.trials)
    (taken,) = [one for one in report.trials if (one.correction, one.settings) == (report.correction, report.settings)]
    (own,) = [one for one in report.trials if one.correction == "identity"]
    preferred = report.trials[: report.trials.index(taken)]
    assert taken.stands_out == best or taken.behind <= 1
    assert all(one.behind > 1 for one in preferred)
    assert taken.stands_out > own.stands_out  # the trained reference, under another light
    assert report.correction != "identity"


def test_what_was_taken_is_in_the_model(auto: tuple[LotCalibrator, LotReport], folder: Path) -> None:
    calibrator, report = auto
    named = collected(padim, folder, correction=report.correction)
    if not report.settings:
        again = named.calibrate(folder / "lot" / "good")
        images = read(folder / "test" / "bad")
        assert torch.equal(raw(named.model, images).pred_score, raw(calibrator.model, images).pred_score)
        assert again.thresholds == report.thresholds
        assert again.trials == ()
        assert "It was asked for by name." in again.sentence
    assert float(calibrator.model.post_processor.image_threshold) == pytest.approx(report.thresholds.image.value)


def test_the_self_test_is_in_the_record(auto: tuple[LotCalibrator, LotReport]) -> None:
    _, report = auto
    tested = report.self_test
    assert tested is not None
    assert tested.before is not None
    assert tested.planted == sum(one.plain for one in tested.defects)
    assert tested.found == sum(one.plain and one.score > report.thresholds.image.value for one in tested.defects)
    assert 0 <= tested.before <= tested.found <= tested.planted
    data = json.loads(json.dumps(report.to_json()))
    assert data["correction"] == report.correction
    assert data["self_test"]["found"] == tested.found
    assert data["thresholds"]["image"]["value"] == report.thresholds.image.value
    assert data["verdict"] == report.verdict
    assert {check["name"] for check in data["checks"]} >= {"odd one out", "shift", "benefit", "threshold", "self-test"}


def test_people_read_it(auto: tuple[LotCalibrator, LotReport]) -> None:
    _, report = auto
    lines = str(report).splitlines()
    assert lines[0] == f"Correction: {report.correction}. {report.sentence}"
    assert f"Of {report.self_test.planted} planted defects" in report.sentence  # type: ignore[union-attr]
    said = {check.sentence: check.verdict for check in report.checks}
    assert all(said[line.split(": ", 1)[1]] == line.split(": ", 1)[0] for line in lines[1:])
    assert len(lines) == len(report.checks)  # the benefit is said in the first line


def test_a_lot_like_the_training_parts_keeps_the_trained_reference(folder: Path) -> None:
    calibrator = collected(patchcore, folder)
    images, parts = read(folder / "test" / "bad"), read(folder / "train")
    before, bank = raw(calibrator.model, images).pred_score, calibrator.model.model.memory_bank
    report = calibrator.calibrate(parts[:6])
    if report.correction == "identity":
        assert torch.equal(raw(calibrator.model, images).pred_score, before)
        assert calibrator.model.model.memory_bank is bank
    (same,) = [check for check in report.checks if check.name == "duplicates"]
    assert same.verdict == report.verdict == "stop"  # and these are the training parts themselves
    assert "image-0 is a training image" in same.sentence


def test_a_part_unlike_the_others_is_named(folder: Path) -> None:
    parts = read(folder / "lot" / "good").clone()
    parts[4, :, 10:50, 10:50] = 0
    report = collected(padim, folder, correction="sparc-recentred").calibrate(parts)
    (alone,) = [check for check in report.checks if check.name == "alone"]
    assert alone.images == ("image-4",)
    assert alone.sentence.startswith("image-4 is the only one of its kind")
    assert report.verdict != "ok"


def test_held_out_parts_set_the_thresholds_and_the_self_test(folder: Path) -> None:
    calibrator = collected(padim, folder, false_reject=0.2)
    plain = calibrator.calibrate(folder / "lot" / "good")
    report = calibrator.calibrate(folder / "lot" / "good", held_out=folder / "lot" / "more")
    scores = raw(calibrator.model, read(folder / "lot" / "more")).pred_score.flatten()
    expected = find_threshold([], scores.tolist(), 0.2)
    assert report.thresholds.image.value == pytest.approx(expected.value, rel=1e-6)
    assert report.correction == plain.correction
    assert report.trials == plain.trials
    tested = report.self_test
    assert tested is not None
    assert tested.found == sum(one.plain and one.score > report.thresholds.image.value for one in tested.defects)
    sentences = {check.name: check.sentence for check in report.checks}
    assert sentences["threshold"] == report.thresholds.image.sentence
    assert sentences["self-test"] == tested.sentence
    assert sentences["benefit"] == report.sentence
    assert [check.name for check in report.checks] == [check.name for check in plain.checks]


def test_a_correction_of_ones_own_is_tested_too(folder: Path) -> None:
    report = collected(padim, folder, correction=SPARC(rank=2, recentre="cell")).calibrate(folder / "lot" / "good")
    assert (report.correction, report.trials) == ("SPARC", ())
    assert report.self_test is not None
    assert report.sentence.endswith("It was asked for by name.")


def test_progress_is_told(folder: Path) -> None:
    steps: list[tuple[int, int]] = []
    collected(padim, folder).calibrate(
        folder / "lot" / "good", progress=lambda done, total: steps.append((done, total))
    )
    assert steps == [(number, 5) for number in range(1, 6)]


def test_images_on_another_grid_are_refused(folder: Path) -> None:
    calibrator = collected(patchcore, folder)
    calibrator.model.pre_processor = None
    with pytest.raises(
        DataError, match=r"on the grid of the training images.*got \(\(16, 16, 384\),\): use images of the"
    ):
        calibrator.calibrate(torch.rand(3, 3, 128, 128))
