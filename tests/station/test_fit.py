"""From good parts to a station: its first self-test, the parts it keeps, its folds, and what growing does to them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sparcal.calibration.held_out import OWN_LIMIT, make_folds
from sparcal.detectors import PaDiM, PatchCore
from sparcal.imaging.decode import open_image
from sparcal.imaging.maps import MapRule
from sparcal.station.fit import FOLDS_FILE, KEPT_PARTS, load_folds
from sparcal.station.kept_images import kept_images
from sparcal.station.station import Station
from tests.support.tiny_station import TinyEncoder, demo, pictures


@pytest.fixture(scope="module")
def station(tmp_path_factory):
    path = tmp_path_factory.mktemp("fit") / "station"
    return Station.fit(pictures(demo().train), path=path, encoder=TinyEncoder())


def kept(station):
    return kept_images(station.folder.references / station.record.reference, station.record.files)


def test_a_station_is_tested_before_its_first_lot(station):
    tested = station.record.self_test
    assert (tested.planted, tested.faint[1], tested.before, tested.seed) == (64, 32, None, 0)
    assert tested.found == sum(one.found for one in tested.defects if one.plain)
    assert station.own().record.self_test == tested


def test_some_parts_are_kept_and_known_by_number(station):
    assert len(kept(station)) == len(station.record.tested) == KEPT_PARTS
    train = pictures(demo().train)
    for path, number in zip(kept(station), station.record.tested, strict=True):
        assert np.array_equal(np.asarray(open_image(path)), train[number])


def test_folds_come_back_as_they_were_made(station):
    features = station.store().load([digest for _, digest in station.record.images])
    made = make_folds(station.detector, features)
    loaded = load_folds(station.folder.references / station.record.reference, station.record.files, 24)
    assert loaded.left_out == made.left_out
    assert all(torch.equal(a, b) for a, b in zip(loaded.rows, made.rows, strict=True))


@pytest.mark.parametrize("detector", [PaDiM(map_rule=MapRule(8)), PatchCore(coreset=1, map_rule=MapRule(8))])
def test_a_detector_without_a_coreset_has_no_rows(tmp_path, detector):
    images = pictures(demo().train[:6])
    station = Station.fit(images, path=tmp_path / "s", encoder=TinyEncoder(), detector=detector)
    assert FOLDS_FILE not in station.record.files
    folder = station.folder.references / station.record.reference
    assert load_folds(folder, station.record.files, 6).rows == ()


def test_a_station_that_has_grown_is_tested_again(tmp_path):
    grown = Station.fit(pictures(demo().train[:6]), path=tmp_path / "s", encoder=TinyEncoder())
    grown = grown.add(pictures(demo().lot_good[:4]))
    assert len(grown.record.images) == 10
    assert grown.record.self_test.planted == 64
    assert len(kept(grown)) == len(grown.record.tested)
    assert grown.self_test(n=8).planted == 8


def test_one_part_added_to_many_leaves_something_to_test_on(tmp_path):
    """More images than are scored out of fold: the new one may not be among those."""
    rng = np.random.default_rng(0)
    images = list(rng.integers(0, 255, (OWN_LIMIT + 12, 64, 64, 3), dtype=np.uint8))
    detector = PatchCore(coreset=0.01, map_rule=MapRule(8))
    station = Station.fit(images[:-1], path=tmp_path / "s", encoder=TinyEncoder(), detector=detector)
    grown = station.add([images[-1]])
    assert len(grown.record.images) == OWN_LIMIT + 12
    assert grown.record.self_test.planted == 64
    assert len(kept(grown)) == len(grown.record.tested) > 1


def test_progress_covers_encoding_and_fitting(tmp_path):
    told = []
    parts = pictures(demo().train[:4])
    Station.fit(parts, path=tmp_path / "s", encoder=TinyEncoder(), progress=lambda *n: told.append(n))
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4), (0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]
