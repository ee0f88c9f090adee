"""What a notebook shows of a station and its lots: facts, evidence, names without markup, no colour of its own paper."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from sparcal.station.notebook_card import NEWEST_LOTS
from sparcal.station.station import Station
from tests.support.tiny_station import TinyEncoder, demo, pictures


@pytest.fixture(scope="module")
def station(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shown")
    return Station.fit(pictures(demo().train[:10]), path=folder / "press <3>", encoder=TinyEncoder())


@pytest.fixture(scope="module")
def lot(station):
    assert "No lot has been calibrated" in station._repr_html_()
    return station.calibrate(pictures(demo().lot_good[:4]), name="L<42>", correction="sparc", reason="a test")


def test_a_station_says_what_it_is_and_would_find(station, lot):
    page = station._repr_html_()
    assert "press &lt;3&gt;" in page
    assert "patchcore, fitted on 10 images of good parts; encoder tiny?seed=0" in page
    assert station.record.self_test.sentence.split(",")[0] in page
    assert "<td>L&lt;42&gt; (active)</td><td>sparc</td>" in page
    assert f"<td>{lot.threshold.value:.4g}</td>" in page
    assert "<42>" not in page


def test_a_station_without_an_active_lot_says_who_judges(station, lot):
    station.activate(None)
    assert "None is active: images are judged by the station's own reference." in station._repr_html_()
    station.activate(lot.name)
    assert "None is active" not in station._repr_html_()


def test_many_lots_are_counted(station, lot, monkeypatch):
    monkeypatch.setattr(Station, "lots", lambda _: [lot] * (NEWEST_LOTS + 3))
    page = station._repr_html_()
    assert page.count("<td>sparc</td>") == NEWEST_LOTS
    assert "And 3 earlier." in page


@pytest.mark.parametrize("what", ["station", "lot"])
def test_a_card_is_small_whole_and_fits_any_paper(what, station, lot):
    page = {"station": station, "lot": lot}[what]._repr_html_()
    assert len(page) < 40_000
    assert "http" not in page
    assert "<script" not in page
    body = page.split("</style>", 1)[1]
    ElementTree.fromstring(body)  # every element is closed
    drawn = {name for names in re.findall(r"class='([\w ]+)'", body) for name in names.split()} - {"sparcal-card"}
    look = page.split("</style>", 1)[0]
    assert drawn - {"reached", "plain", "chart"} <= set(re.findall(r"\.chart \.(\w+)", look)), "every mark has its look"
    colours = set(re.findall(r"(?:fill|stroke): ([^;]+);", look))
    assert colours == {"currentColor", "none", "#1f9271", "#dc5a50"}
