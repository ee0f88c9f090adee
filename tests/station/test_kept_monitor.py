"""A monitor that is started again: it knows what the last one knew, of its own lot only."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sparcal.station.kept_monitor import KeptMonitor
from sparcal.station.station import Station
from tests.support.tiny_station import TinyEncoder, demo, pictures


@pytest.fixture(scope="module")
def station(tmp_path_factory):
    path = tmp_path_factory.mktemp("kept") / "station"
    return Station.fit(pictures(demo().train), path=path, encoder=TinyEncoder())


@pytest.fixture(scope="module")
def judged(station):
    good = pictures(demo().lot_good)
    dark = [np.round(image * 0.75).astype(np.uint8) for image in good]
    return station.own().score([*good[:6], *dark[:20]])


def test_a_shift_is_noticed_across_a_restart_and_told_again(station, judged, tmp_path):
    path = tmp_path / "monitor.jsonl"
    first = KeptMonitor(station.own(), path)
    assert not any(first.watch(one) for one in judged[:12])
    assert first.facts() is None
    second = KeptMonitor(station.own(), path)
    noticed = [second.watch(one) for one in judged[12:]]
    assert noticed.count(True) == 1
    facts = second.facts()
    assert facts["sentence"].startswith(f"Since {facts['first']} parts look different: the whole image is darker (-2")
    assert facts["lot"] is None
    assert json.loads(json.dumps(facts)) == facts
    third = KeptMonitor(station.own(), path)
    assert third.facts() == facts


def test_a_line_cut_short_and_lines_of_another_lot_are_passed_over(station, judged, tmp_path):
    path = tmp_path / "monitor.jsonl"
    kept = KeptMonitor(station.own(), path)
    kept.watch(judged[0])
    with path.open("a") as stream:
        line = json.loads(path.read_text())
        stream.write(json.dumps({**line, "lot": "other"}) + "\n" + json.dumps(line)[:40])
    again = KeptMonitor(station.own(), path)
    assert again.monitor.seen == 1
    again.watch(judged[1])
    assert KeptMonitor(station.own(), path).monitor.seen == 2  # the line after a torn one is not lost with it
