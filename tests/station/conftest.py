"""A station with a calibrated lot, which tests may change."""

from __future__ import annotations

import shutil

import pytest

from sparcal.station.station import Station
from tests.support.tiny_station import TinyEncoder, demo, pictures


@pytest.fixture(scope="package")
def made(tmp_path_factory):
    """A fitted station with one calibrated lot; copied by tests that change it."""
    path = tmp_path_factory.mktemp("made") / "station"
    station = Station.fit(pictures(demo().train), "patchcore", path=path, encoder=TinyEncoder())
    station.calibrate(
        pictures(demo("lights").lot_good[:8]), "L1", correction="sparc-recentred", operator="Ada", reason="a test"
    )
    return path


@pytest.fixture
def path(made, tmp_path):
    return shutil.copytree(made, tmp_path / "station")


@pytest.fixture
def station(path):
    return Station.open(path, encoder=TinyEncoder())
