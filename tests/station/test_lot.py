"""Lots: verdicts, maps, rows, and evidence against its definition."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from PIL import Image

from sparcal.calibration.held_out import (
    CalibratedDetector,
    left_out_scores,
    make_folds,
    own_scores,
    peaks,
    plain_folds,
    rebuild,
    spaced,
)
from sparcal.corrections import CORRECTIONS
from sparcal.detectors import AnomalyDINO, PaDiM, PatchCore
from sparcal.imaging.maps import MapRule, input_map, native_map
from sparcal.imaging.preprocess import Geometry
from sparcal.station.lot_record import LotRecord
from sparcal.station.station import Station
from sparcal.types import Features
from tests.support.tiny_station import SIZE, TinyEncoder, demo, pictures

PLACE = Geometry((32, 40), (32, 40), (0.0, 0.0, 32.0, 40.0), (0, 0, 32, 40))


@pytest.fixture(scope="module")
def lot(tmp_path_factory):
    path = tmp_path_factory.mktemp("lot") / "station"
    station = Station.fit(pictures(demo().train), path=path, encoder=TinyEncoder())
    return station.calibrate(pictures(demo("moved").lot_good[:8]), "L", correction="sparc-recentred", false_reject=0.1)


def grids(n, seed):
    mean = torch.randn(4, 5, 6, generator=torch.Generator().manual_seed(99))
    return Features((mean + 0.3 * torch.randn(n, 4, 5, 6, generator=torch.Generator().manual_seed(seed)),))


def test_a_part_fails_above_the_threshold_and_not_at_it(lot):
    images = pictures(demo("moved").lot_good[8:12])
    score = lot.score(images[0])[0].score
    for value, verdict in ((score, "pass"), (np.nextafter(score, 0), "fail")):
        assert lot.station.set_threshold("L", value).score(images[0])[0].verdict == verdict
    lot.station.set_threshold("L")


def test_a_map_has_every_native_pixel(lot):
    judged = lot.score(pictures(demo("moved").lot_bad[:2]))
    for one in judged:
        heat = one.heat()
        assert heat.shape == (SIZE, SIZE)
        assert heat.dtype == np.float32
        assert np.isfinite(heat).all()


def test_rows_and_progress(lot, tmp_path):
    for number, part in enumerate(demo("moved").lot_good[8:11]):
        Image.fromarray(part.image).save(tmp_path / f"{number}.png")
    (tmp_path / "broken.png").write_bytes(b"no image")
    seen = []
    judged = lot.score(tmp_path, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    rows = [one.row() for one in judged]
    assert [row["path"] for row in rows] == [str(tmp_path / f"{name}.png") for name in ("0", "1", "2", "broken")]
    assert set(rows[0]) >= {"path", "score", "threshold", "verdict"}
    assert (rows[3]["verdict"], rows[3]["score"]) == ("error", None)
    assert "must be a readable PNG" in rows[3]["reason"]
    assert [one.score for one in lot.score(str(tmp_path / "[12].png"))] == [row["score"] for row in rows[1:3]]


def test_images_are_judged_as_they_come(lot):
    """Nothing runs far ahead of whoever asks for the results."""
    opened = []

    class Lazy(list):
        def __getitem__(self, index):
            opened.append(index)
            return super().__getitem__(index)

        def __iter__(self):
            for index in range(len(self)):
                yield self[index]

    stream = lot.stream(Lazy(pictures(demo("moved").lot_good)))
    next(stream)
    assert len(opened) <= 4


def test_a_record_survives_json(lot):
    record = LotRecord.from_json(lot.record.to_json())
    assert record == lot.record
    assert record.verdict in ("ok", "look", "stop")


def test_the_record_keeps_maps_of_what_was_removed(lot):
    maps = lot.maps()
    assert maps["removed"].shape == (8, 8)
    assert maps["left_out"].shape == (8, 8, 8)


def test_titles_say_what_judges(lot):
    assert lot.title == "Lot L, sparc-recentred"
    kept = lot.station.calibrate(pictures(demo().lot_good[:4]), "kept", correction="identity")
    assert kept.title == "Lot kept, the station's own reference"


# Evidence, against a plain loop


@pytest.mark.parametrize("correction", ["identity", "sparc", "sparc-recentred", "normals"])
@pytest.mark.parametrize("detector", [PaDiM(map_rule=MapRule(8)), PatchCore(coreset=1, map_rule=MapRule(8))])
def test_parts_are_scored_by_what_never_saw_them(detector, correction):
    reference, calibration = grids(12, 1), grids(4, 2)
    rebuilt, corrected = rebuild(detector, CORRECTIONS[correction](), reference, calibration)
    own = own_scores(rebuilt.detector, corrected, [PLACE] * 12, make_folds(detector, reference))
    for left_out in plain_folds(12):
        kept = [i for i in range(len(corrected)) if i not in left_out]
        expected = copy.copy(detector).fit(corrected[kept]).score(corrected[list(left_out)])
        torch.testing.assert_close(own.image[list(left_out)], expected.image)
        torch.testing.assert_close(own.cell[list(left_out)], expected.cell)
    lot = left_out_scores(rebuilt, reference, calibration, [PLACE] * 4)
    for j in range(4):
        others = calibration[[i for i in range(4) if i != j]]
        alone, _ = rebuild(detector, CORRECTIONS[correction](), reference, others)
        torch.testing.assert_close(lot.image[j : j + 1], alone.score(calibration[j]).image)


@pytest.mark.parametrize("correction", ["sparc-recentred", "normals"])
def test_a_coreset_keeps_its_rows_and_never_those_of_a_part_left_out(correction):
    """Each left-out part is replaced by one far away: a score that noticed would be far off too."""
    detector = PatchCore(coreset=0.3, map_rule=MapRule(8))
    reference, calibration = grids(12, 1), grids(4, 2)
    folds = make_folds(detector, reference)
    rebuilt, corrected = rebuild(detector, CORRECTIONS[correction](), reference, calibration)
    own = own_scores(rebuilt.detector, corrected, [PLACE] * 12, folds)
    assert len(own) == 12
    fresh = []
    for left_out in folds.left_out:
        kept = [i for i in range(len(corrected)) if i not in left_out]
        fresh.append(copy.copy(detector).fit(corrected[kept]).score(corrected[list(left_out)]).image)
    ratio = float(own.image.mean() / torch.cat(fresh).mean())
    assert ratio == pytest.approx(1, abs=0.2)
    for number, left_out in enumerate(folds.left_out):
        far = corrected.levels[0].clone()
        far[list(left_out)] += 100
        moved = own_scores(rebuilt.detector, Features((far,)), [PLACE] * 12, folds)
        assert float(moved.image[list(left_out)].min()) > 100, number
    lot = left_out_scores(rebuilt, reference, calibration, [PLACE] * 4)
    alone = [
        rebuild(detector, CORRECTIONS[correction](), reference, calibration[[i for i in range(4) if i != j]])[0]
        .score(calibration[j])
        .image
        for j in range(4)
    ]
    assert float(lot.image.mean() / torch.cat(alone).mean()) == pytest.approx(1, abs=0.2)


def test_nothing_is_left_out_of_two():
    rebuilt, _ = rebuild(PatchCore(), CORRECTIONS["sparc"](), grids(6, 1), grids(2, 2))
    assert left_out_scores(rebuilt, grids(6, 1), grids(2, 2), [PLACE] * 2) is None


def test_a_test_side_correction_leaves_the_reference():
    correction = CORRECTIONS["sparc"](on="test")
    rebuilt, corrected = rebuild(PatchCore(coreset=1), correction, grids(6, 1), grids(3, 2))
    assert torch.equal(corrected.levels[0], grids(6, 1).levels[0])
    plain = CalibratedDetector(CORRECTIONS["identity"](), rebuilt.detector)
    assert not torch.equal(rebuilt.score(grids(2, 3)).image, plain.score(grids(2, 3)).image)


@pytest.mark.parametrize("rule", [MapRule(8), AnomalyDINO().map_rule])
def test_peaks_are_the_highest_pixels(rule):
    rule = MapRule(8, at=rule.at)
    cell = torch.rand(3, 4, 5, generator=torch.Generator().manual_seed(1))
    got = peaks(cell, rule, [PLACE] * 3)
    for one, value in zip(cell, got, strict=True):
        whole = native_map(one, rule, PLACE, outside=0.0) if rule.at == "native" else input_map(one[None], rule).numpy()
        assert float(value) == pytest.approx(float(whole.max()), rel=1e-6)


def test_chosen_parts_are_evenly_spaced():
    assert spaced(5, 10) == [0, 1, 2, 3, 4]
    assert spaced(100, 4) == [0, 25, 50, 75]
    assert sorted(i for fold in plain_folds(300) for i in fold) == spaced(300, 120)
