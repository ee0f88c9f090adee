"""Judgements: a list that shows itself, becomes a table, draws its parts and pickles; stations and lots pickle too."""

from __future__ import annotations

import builtins
import re
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from PIL import Image

from sparcal.errors import MissingExtraError
from sparcal.station.judgement import Judgement, Judgements
from sparcal.station.station import Station
from tests.support.pickled import pickled
from tests.support.tiny_station import TinyEncoder, demo, pictures

mpl.use("agg")


@pytest.fixture(scope="module")
def lot(tmp_path_factory):
    folder = tmp_path_factory.mktemp("judged")
    parts = demo()
    station = Station.fit(pictures(parts.train[:10]), path=folder / "station", encoder=TinyEncoder())
    return station.calibrate(pictures(parts.lot_good[:4]), name="L42", correction="sparc", reason="a test")


@pytest.fixture(scope="module")
def judged(lot, tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    for number, image in enumerate(pictures(demo().lot_bad[:2])):
        Image.fromarray(image).save(folder / f"part <{number}>.png")
    (folder / "broken.png").write_bytes(b"no image")
    return lot.score(folder)


def test_scoring_gives_a_list(judged):
    assert isinstance(judged, list)
    assert [one.path.name for one in judged] == ["broken.png", "part <0>.png", "part <1>.png"]
    assert isinstance(judged[1], Judgement)
    made = [Judgement(Path("a.png"), None, 3.0, 2.0, verdict, 2.5) for verdict in ("fail", "pass", "pass")]
    assert repr(Judgements(made)) == "<Judgements of 3 images: 1 fail, 2 pass>"
    assert repr(Judgements()) == "<Judgements of 0 images>"
    assert judged.worst_first()[0].verdict == "error"
    scores = [one.score for one in judged.worst_first()[1:]]
    assert scores == sorted(scores, reverse=True)


def test_a_judgement_is_one_line(judged):
    assert re.fullmatch(r"<Judgement (pass|fail): part <0>\.png, score [\d.]+, threshold [\d.]+>", repr(judged[1]))
    assert repr(judged[0]).startswith("<Judgement error: broken.png, ")


def test_judgements_become_a_table(judged):
    table = judged.to_pandas()
    assert list(table.columns) == list(judged[0].row())
    assert list(table["verdict"]) == [one.verdict for one in judged]
    assert list(Judgements().to_pandas().columns) == list(table.columns)


def test_the_picture_lies_over_the_photograph(judged):
    picture = judged[1].picture()
    photograph = np.asarray(Image.open(judged[1].path))
    assert picture.shape == photograph.shape
    assert judged[0].picture() is None
    quiet = judged[1].heat() < judged[1].pixel_threshold * 0.5
    if quiet.any():
        assert np.abs(picture[quiet].astype(int) - photograph[quiet]).mean() < 60


def test_a_photograph_from_memory_lies_over_grey(lot):
    (one,) = lot.score([pictures(demo().lot_bad)[0]])
    assert one.picture().shape == (64, 64, 3)


def test_notebooks_show_heat_maps(judged, lot):
    page = judged._repr_html_()
    assert page.count("data:image/jpeg;base64,") == 2
    assert "part &lt;0&gt;.png" in page
    assert "<0>" not in page
    assert len(page) < 100_000
    shown = lot._repr_html_()
    assert "<b>Lot L42, sparc</b>" in shown
    assert lot.record.self_test.sentence.split(" ")[0] in shown


def test_many_judgements_show_the_worst(judged):
    assert "the 12 worst are shown" in Judgements(list(judged) * 5)._repr_html_()


def test_plots(judged, lot):
    axes = judged[1].plot()
    assert axes.get_title().startswith("part <0>.png: ")
    assert len(axes.get_images()) == 1
    assert judged[0].plot(axes) is axes
    drawn = lot.plot()
    assert drawn.get_title() == "Lot L42, sparc"
    counts = [len(line.get_xdata()) for line in drawn.get_lines()]
    planted = sum(one.plain for one in lot.record.self_test.defects)
    assert counts[:2] == [len(lot.record.image.lot), planted]
    mpl.pyplot.close("all")


def test_missing_libraries_name_the_extra(judged, lot, monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name.split(".")[0] in ("pandas", "matplotlib"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"needs pandas, .*: run pip install 'sparcal\[notebook\]'"):
        judged.to_pandas()
    with pytest.raises(MissingExtraError, match=r"Plots need matplotlib, .*: run pip install 'sparcal\[notebook\]'"):
        lot.plot()


def test_judgements_stations_and_lots_pickle(judged, lot):
    again = pickled(judged)
    assert [one.row() for one in again] == [one.row() for one in judged]
    np.testing.assert_array_equal(again[1].heat(), judged[1].heat())
    reopened = pickled(lot)
    image = pictures(demo().lot_bad)[1]
    assert reopened.score([image])[0].score == lot.score([image])[0].score
    assert pickled(lot.station).path == Path(lot.station.path)
