"""Results in a folder and images that arrive in one: whole files, each image once, a page that stands alone."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from PIL import Image

from sparcal.errors import DataError
from sparcal.station.judged_folder import Results, Wanted, outlined
from sparcal.station.station import Station
from sparcal.station.watch import arrivals
from tests.support.tiny_station import SIZE, TinyEncoder, demo, pictures


@pytest.fixture(scope="module")
def lot(tmp_path_factory):
    path = tmp_path_factory.mktemp("results") / "station"
    station = Station.fit(pictures(demo().train), path=path, encoder=TinyEncoder())
    return station.calibrate(pictures(demo("moved").lot_good[:8]), "L <1>", correction="sparc-recentred")


@pytest.fixture
def images(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for part in demo("moved").lot_bad[:3]:
        Image.fromarray(part.image).save(folder / f"{part.name}.png")
    return folder


def judged(lot, images, out, wanted=None):
    results = Results(out, lot, wanted or Wanted())
    for judgement in lot.score(images):
        results.add(judgement)
    return results


@pytest.mark.parametrize("kind", ["npy", "tiff"])
def test_maps_are_the_floats_of_every_native_pixel(lot, images, tmp_path, kind):
    results = judged(lot, images, tmp_path / "out", Wanted(maps=kind))
    expected = {str(one.path): one.heat() for one in lot.score(images)}
    for path, row in results.rows.items():
        read = np.load(row["map"]) if kind == "npy" else np.asarray(Image.open(row["map"]))
        assert read.dtype == np.float32
        np.testing.assert_array_equal(read, expected[path])
        with Image.open(row["overlay"]) as drawn:
            assert drawn.size == (SIZE, SIZE)


def test_nothing_is_written_that_is_not_wanted(lot, images, tmp_path):
    judged(lot, images, tmp_path / "out", Wanted(maps="none", overlays=False)).finish()
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "index.html",
        "scores.csv",
        "scores.jsonl",
        "self-test.html",
    ]


def test_the_page_stands_alone_and_escapes_names(lot, images, tmp_path):
    (images / "<b>&.png").write_bytes(next(images.glob("*.png")).read_bytes() + b" ")
    (images / "bad.png").write_bytes(b"no image")
    page = judged(lot, images, tmp_path / "out").finish().read_text(encoding="utf-8")
    assert not re.search(r"(src|href)=['\"]?(?!data:|self-test\.html)[^'\"> ]", page)
    assert "http" not in page
    assert "url(" not in page
    assert "&lt;b&gt;&amp;.png" in page
    assert "Lot L &lt;1&gt;" in page
    assert "prefers-color-scheme: dark" in page
    assert page.index("bad.png") < page.index("&lt;b&gt;")
    assert len(page) < 400_000


def test_a_line_means_that_the_files_are_whole(lot, images, tmp_path, monkeypatch):
    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    results = judged(lot, images, tmp_path / "out")
    before = (tmp_path / "out" / "scores.jsonl").read_bytes()
    monkeypatch.setattr("sparcal.station.judged_folder.np.save", full)
    with pytest.raises(OSError, match="No space left"):
        results.add(lot.score(images)[0])
    assert (tmp_path / "out" / "scores.jsonl").read_bytes() == before
    assert not list((tmp_path / "out").rglob("*.tmp"))


def test_maps_that_will_not_fit_are_refused_at_the_start(lot, images, tmp_path, monkeypatch):
    monkeypatch.setattr("sparcal.station.judged_folder.shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000}))
    results = Results(tmp_path / "out", lot, Wanted())
    paths = sorted(images.iterdir())
    with pytest.raises(DataError, match=r"The maps of 3 images need about 0.0 GB in .*, got 0.0 GB free: keep no maps"):
        results.require_room(paths)
    Results(tmp_path / "out", lot, Wanted(maps="none")).require_room(paths)


def test_results_go_on_where_they_stopped(lot, images, tmp_path):
    results = judged(lot, images, tmp_path / "out")
    again = Results(tmp_path / "out", lot, Wanted())
    assert again.rows == results.rows
    assert len(again.known()) == 3
    by_hand = lot.station.set_threshold(lot.name, 1e9)
    with pytest.raises(DataError, match=r"holds results of L <1> with threshold .*, got L <1> with 1e\+09"):
        Results(tmp_path / "out", by_hand, Wanted())
    lot.station.set_threshold(lot.name)


def test_what_exceeds_the_limit_is_outlined():
    image, heat = np.zeros((40, 40, 3), np.uint8), np.zeros((40, 40), np.float32)
    heat[10:20, 10:20] = 5
    drawn = outlined(image, heat, 1.0)
    white = (drawn == 255).all(axis=2)
    assert white[10, 10:20].all()
    assert not white[14, 14]
    assert not (outlined(image, heat, 10.0) == 255).all(axis=2).any()


def test_each_arrival_is_handed_out_once(images):
    known: set[str] = set()
    found = [path.name for new in arrivals(images, lambda: known, idle_s=0.05, poll_s=0.01) for path in new]
    assert found == sorted(path.name for path in images.iterdir())


def test_a_restart_knows_what_was_judged_by_its_content(lot, images, tmp_path):
    results = judged(lot, images, tmp_path / "out")
    first = sorted(images.iterdir())[0]
    first.rename(images / "moved.png")  # the same content under a new name
    (images / sorted(images.iterdir())[1].name).write_bytes(b"new content of an old name")
    again = Results(tmp_path / "out", lot, Wanted())
    (new,) = list(arrivals(images, again.known, idle_s=0.05, poll_s=0.01))
    assert [path.read_bytes() for path in new] == [b"new content of an old name"]
    for judgement in lot.stream(new):
        row = again.add(judgement)
    assert (row["verdict"], row["sha256"] in again.known()) == ("error", True)
    assert list(arrivals(images, again.known, idle_s=0.05, poll_s=0.01)) == []
    assert len(results.rows) == len(again.rows)
    lines = (tmp_path / "out" / "scores.jsonl").read_text().splitlines()
    assert len(lines) == 4
    assert all(json.loads(line) for line in lines)


def test_a_file_that_is_still_being_written_waits(images):
    growing = images / "growing.png"
    growing.write_bytes(b"1")
    handed_out = []

    def known():
        """Asked once per look: the file has grown since the one before."""
        if growing.stat().st_size < 9:
            growing.write_bytes(growing.read_bytes() + b"1")
        return set()

    for new in arrivals(images, known, idle_s=0.05, poll_s=0.01):
        handed_out += [path.name for path in new]
        assert growing not in new or growing.stat().st_size == 9
    assert handed_out[-1] == "growing.png", "it came last, when it was whole"
    assert len(handed_out) == len(set(handed_out)) == len(list(images.iterdir()))


def test_an_empty_folder_waits(tmp_path):
    assert list(arrivals(tmp_path, set, idle_s=0.05, poll_s=0.01)) == []


def test_wanted_maps_are_named():
    with pytest.raises(DataError, match="Maps can be kept as npy, tiff, none, got 'png'"):
        Wanted(maps="png")
