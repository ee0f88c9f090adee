"""The worker's station: what somebody changes on the command line meanwhile counts from then on."""

from __future__ import annotations

import pytest

from sparcal.server.work.loaded import Loaded
from sparcal.station.station import Station
from tests.support.tiny_station import TinyEncoder, demo, pictures


@pytest.fixture
def station(tmp_path):
    return Station.fit(pictures(demo().train[:-2]), path=tmp_path / "station", encoder=TinyEncoder())


def test_a_threshold_that_is_set_by_hand_counts_for_the_stations_own_reference_too(station):
    loaded = Loaded(station.path)
    calibrated = loaded.lot("").threshold.value
    assert loaded.lot("") is loaded.lot(""), "nothing is read twice"
    station.set_threshold(None, 5.0)
    assert loaded.lot("").threshold.value == 5.0
    station.set_threshold(None)
    assert loaded.lot("").threshold.value == calibrated


def test_a_station_that_has_grown_is_opened_again(station):
    loaded = Loaded(station.path)
    before, own = loaded.station, loaded.lot("")
    assert loaded.station is before
    station.add(pictures(demo().train[-2:]))
    assert len(loaded.station.record.images) == len(before.record.images) + 2
    assert len(loaded.lot("").record.image.own) == len(own.record.image.own) + 2
