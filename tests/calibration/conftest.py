"""One small station for the tests that calibrate without a folder; none of them writes to it."""

from __future__ import annotations

import pytest

from sparcal.station.calibrating import inputs_of
from sparcal.station.station import Station
from tests.support.tiny_station import TinyEncoder, demo, pictures


@pytest.fixture(scope="package")
def station(tmp_path_factory):
    path = tmp_path_factory.mktemp("calibration") / "station"
    return Station.fit(pictures(demo().train), path=path, encoder=TinyEncoder())


@pytest.fixture(scope="package")
def inputs(station):
    return inputs_of(station)
