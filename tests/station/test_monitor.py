"""A monitor on the line: another lamp is announced soon and in words, defects and plain days are not."""

from __future__ import annotations

import numpy as np
import pytest

from sparcal.calibration.sight import PartReading
from sparcal.errors import DataError
from sparcal.rendering.parts import LOT_LIGHTS, PRODUCTS, TRAINING_LIGHT, part_seeds, render_part
from sparcal.station.station import Station
from tests.support.tiny_station import SIZE, TinyEncoder, demo, pictures

WITHIN = 20  # parts in which a lamp change must be announced


def rendered(group, count, *, light=TRAINING_LIGHT, defect=None, extent=1.0):
    return [
        render_part(seed, light=light, defect=defect, extent=extent, size=SIZE).image
        for seed in part_seeds(7, group, count)
    ]


@pytest.fixture(scope="module")
def station(tmp_path_factory):
    path = tmp_path_factory.mktemp("monitor") / "station"
    return Station.fit(pictures(demo().train), path=path, encoder=TinyEncoder())


@pytest.fixture(scope="module")
def readings(station):
    """What a monitor reads of good parts, of parts under another lamp, and of the largest defects there are."""
    lot, monitor = station.own(), station.own().monitor()
    kinds = sorted(PRODUCTS["plate"].large)
    images = {
        "good": rendered(1, 60),
        "lamp": rendered(2, 24, light=LOT_LIGHTS[4]),
        "dim": [np.round(image * 0.85).astype(np.uint8) for image in rendered(3, 24)],
        "defects": [image for kind in kinds for image in rendered(4, 4, defect=kind, extent=2.0)],
    }
    return {name: [monitor.read(one) for one in lot.stream(each)] for name, each in images.items()}


def runs(monitor, *groups):
    """Feed groups of (readings, count), drawn at random; where and what was announced."""
    rng, found = np.random.default_rng(0), None
    for each, count in groups:
        for number in rng.integers(len(each), size=count):
            shift = monitor.take(each[number])
            found = shift or found
    return found


@pytest.mark.parametrize("change", ["lamp", "dim"])
@pytest.mark.parametrize("before", [0, 200])
def test_another_lamp_is_announced_soon(station, readings, change, before):
    shift = runs(station.own().monitor(), (readings["good"], before), (readings[change], WITHIN))
    assert shift is not None
    assert before <= shift.last < before + WITHIN
    assert abs(shift.first - before) <= 1
    if change == "dim":
        assert shift.words[0].startswith("darker (-1")
        assert shift.sentence.startswith("Parts look different: the whole image is darker (-1")
        assert shift.sentence.endswith("not a local defect. Calibrate a new lot?")


def quiet_days(station, readings, count):
    alarms = []
    for seed in range(count):
        rng, monitor = np.random.default_rng(seed), station.own().monitor()
        order = rng.integers(len(readings["good"]), size=1000)
        alarms += [shift for number in order if (shift := monitor.take(readings["good"][number]))]
    return alarms


def test_a_thousand_good_parts_raise_no_alarm(station, readings):
    assert quiet_days(station, readings, 2) == []


@pytest.mark.slow
def test_twenty_thousand_good_parts_raise_no_alarm(station, readings):
    assert quiet_days(station, readings, 20) == []


@pytest.mark.parametrize("before", [0, 200])
def test_a_burst_of_the_largest_defects_is_no_shift(station, readings, before):
    assert runs(station.own().monitor(), (readings["good"], before), (readings["defects"], 15)) is None


def test_defects_now_and_then_are_no_shift(station, readings):
    mixed = readings["good"] * 4 + readings["defects"]
    assert runs(station.own().monitor(), (mixed, 600)) is None


def test_a_lot_has_its_own_normal(station):
    """Under the lot's lamp all is well, however different it is from training; back under the old one it is not."""
    warm = rendered(5, 30, light=LOT_LIGHTS[0])
    lot = station.calibrate(warm[:8], "warm", correction="mean-only", activate=False)
    monitor = lot.monitor()
    assert [monitor.watch(one) for one in lot.stream(warm[8:])] == [None] * 22
    shifts = [monitor.watch(one) for one in lot.stream(rendered(6, WITHIN))]
    found = [one for one in shifts if one]
    assert len(found) == 1, "it is announced once"
    assert any("cooler" in word for word in found[0].words)
    assert monitor.shift == found[0]


def test_what_was_dismissed_is_the_new_normal(station, readings):
    monitor = station.own().monitor()
    assert runs(monitor, (readings["good"], 40), (readings["dim"], 30)) is not None
    monitor.dismiss()
    assert monitor.shift is None
    assert runs(monitor, (readings["dim"], 200)) is None
    assert runs(monitor, (readings["good"], WITHIN)) is not None, "and the old look is a change now"


def test_a_monitor_that_takes_the_same_readings_is_the_same(station, readings):
    kept = [PartReading.from_json(one.to_json()) for one in readings["good"] + readings["lamp"]]
    first, second = station.own().monitor(), station.own().monitor()
    found = [first.take(one) for one in kept]
    for one in kept[:30]:
        second.take(PartReading.from_json(one.to_json()))
    assert [second.take(one) for one in kept[30:]] == found[30:]
    assert first.test.evidence == second.test.evidence


def test_a_part_that_could_not_be_judged_proves_nothing(station, tmp_path):
    (tmp_path / "broken.png").write_bytes(b"no image")
    monitor = station.own().monitor()
    (judged,) = station.own().score(tmp_path)
    assert (monitor.watch(judged), monitor.seen) == (None, 0)


def test_refusals(station):
    with pytest.raises(DataError, match="at least 100 parts between two false alarms, got 5"):
        station.own().monitor(one_in=5)
    with pytest.raises(DataError, match="nothing to dismiss before it has announced"):
        station.own().monitor().dismiss()
    pair = station.calibrate(rendered(8, 2), "pair", correction="mean-only", activate=False)
    with pytest.raises(DataError, match="cannot be monitored with 2 kept images of good parts, 3 are needed"):
        pair.monitor()
