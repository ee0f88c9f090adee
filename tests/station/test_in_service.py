"""The lot that judges now: a change by somebody else is seen, and only a change."""

from __future__ import annotations

import os

import pytest

from sparcal.errors import DataError
from sparcal.station.in_service import LotInService
from sparcal.station.station import Station
from tests.support.tiny_station import TinyEncoder, demo, pictures


@pytest.fixture(scope="module")
def station(tmp_path_factory):
    path = tmp_path_factory.mktemp("in-service") / "station"
    fitted = Station.fit(pictures(demo().train), path=path, encoder=TinyEncoder())
    for name in ("A", "B"):
        fitted.calibrate(pictures(demo("moved").lot_good[:4]), name, correction="sparc-recentred", activate=False)
    return fitted


@pytest.fixture
def somebody(station):
    """The same station, opened by somebody else; what is changed is put back."""
    other = Station.open(station.path, encoder=TinyEncoder())
    yield other
    other.activate(None)
    for name in (None, "A", "B"):
        other.set_threshold(name)


def test_the_active_lot_is_followed(station, somebody):
    service = LotInService(station, None)
    assert (service.lot.name, service.changed()) == (None, False)
    somebody.activate("A")
    assert service.changed()
    assert service.lot.name == "A"
    assert service.lot.station.encoder is station.encoder, "nothing is loaded again"
    assert not service.changed()
    somebody.activate(None)
    assert service.changed()
    assert service.lot.name is None


def test_other_peoples_classes_stay_known_after_a_change(station, somebody):
    class Foreign:
        pass

    opened = Station.open(station.path, encoder=TinyEncoder(), kinds=[Foreign])
    service = LotInService(opened, None)
    somebody.activate("A")
    assert service.changed()
    assert service.lot.station.kinds == (Foreign,)


def test_a_named_lot_stays_but_its_threshold_is_followed(station, somebody):
    service = LotInService(station, "A")
    somebody.activate("B")
    somebody.set_threshold("B", 3.0)
    assert not service.changed()
    somebody.set_threshold("A", 2.0)
    assert service.changed()
    assert (service.lot.name, service.lot.threshold.value) == ("A", 2.0)


def test_files_that_are_only_touched_change_nothing(station, somebody):
    somebody.activate("A")
    service = LotInService(station, None)
    os.utime(station.path / "active", (1, 1))
    assert not service.changed()
    assert service.lot.name == "A"


def test_an_own_reference_that_was_fitted_anew_is_followed(tmp_path):
    path, parts = tmp_path / "station", pictures(demo().train)
    service = LotInService(Station.fit(parts[:12], path=path, encoder=TinyEncoder()), None)
    before = service.lot.threshold.value
    Station.open(path, encoder=TinyEncoder()).add(parts[12:])
    assert service.changed()
    assert service.lot.threshold.value != before
    assert next(iter(service.lot.stream(parts[:1]))).score is not None


def test_a_lot_that_is_not_there_is_refused(station):
    with pytest.raises(DataError, match="has no lot 'C'; it has A, B"):
        LotInService(station, "C")
