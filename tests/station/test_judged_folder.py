"""Results in a folder: whole files, rows that name their lot, a page that stands alone."""

from __future__ import annotations

import csv
import os
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sparcal.errors import ArtifactError, DataError, FullDiskError
from sparcal.station.judged_folder import Results, Wanted, outlined
from sparcal.station.station import Station
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


@pytest.mark.parametrize("fate", ["moved away", "replaced"])
def test_an_image_that_goes_once_it_is_judged_gets_its_overlay_on_grey(lot, images, tmp_path, fate):
    results = Results(tmp_path / "out", lot, Wanted())
    image = sorted(images.iterdir())[0]
    (judgement,) = lot.score(image)
    image.unlink()
    if fate == "replaced":
        Image.new("RGB", (7, 5)).save(image)
    row = results.add(judgement)
    assert row["score"] == judgement.score
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
    with pytest.raises(FullDiskError, match=r"out needs more free space on its disk, got .* free: make room"):
        results.add(lot.score(images)[0])
    assert (tmp_path / "out" / "scores.jsonl").read_bytes() == before
    assert not list((tmp_path / "out").rglob("*.tmp"))


@pytest.mark.parametrize("step", ["shutil.copyfile", "write_page"])
def test_a_full_disk_at_the_end_names_the_folder_that_is_full(lot, images, tmp_path, monkeypatch, step):
    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device", "the lot's own self-test.html")

    results = judged(lot, images, tmp_path / "out")
    monkeypatch.setattr(f"sparcal.station.judged_folder.{step}", full)
    with pytest.raises(FullDiskError, match=r"/out needs more free space on its disk, got .* free: make room"):
        results.finish()


@pytest.mark.parametrize("line", [b'{"path": "a.p\xffg"', b"\0" * 40, b"{}", b"5", b""])
def test_a_damaged_line_is_refused_and_hides_none_of_the_others(lot, images, tmp_path, line):
    """Those after it were dropped without a word, and removed from the file."""
    judged(lot, images, tmp_path / "out")
    journal = tmp_path / "out" / "scores.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(damaged := b"".join([lines[0], line + b"\n", *lines[2:]]))
    with pytest.raises(
        ArtifactError, match=r"^Line 2 of .*scores.jsonl was expected to be what was said about an image"
    ):
        Results(tmp_path / "out", lot, Wanted())
    assert journal.read_bytes() == damaged


def test_a_pipe_in_the_place_of_the_rows_is_not_waited_for(lot, tmp_path):
    os.mkfifo(tmp_path / "scores.jsonl")
    with pytest.raises(
        ArtifactError, match="expected to be a file of lines, got something else: choose another folder"
    ):
        Results(tmp_path, lot, Wanted())


def test_maps_that_will_not_fit_are_refused_at_the_start(lot, images, tmp_path, monkeypatch):
    monkeypatch.setattr("sparcal.files.full_disk.shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000}))
    results = Results(tmp_path / "out", lot, Wanted())
    paths = sorted(images.iterdir())
    with pytest.raises(
        FullDiskError,
        match=r"Keeping the maps of 3 images needs about 49 kB at .*, got 1.0 kB free: make room, or keep no maps",
    ):
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


def test_a_folder_that_is_watched_holds_rows_of_several_lots_and_says_which(lot, images, tmp_path):
    judged(lot, images, tmp_path / "out")
    own = lot.station.own()
    again = Results(tmp_path / "out", own, Wanted(), mixed=True)
    Image.fromarray(demo("moved").lot_good[9].image).save(images / "later.png")
    for judgement in own.stream([images / "later.png"]):
        again.add(judgement)
    page = again.finish().read_text(encoding="utf-8")
    assert f"3 by lot L &lt;1&gt; at {lot.threshold.value:.4g}; they are not in the histogram" in page
    assert "aria-label='1 scores'" in page
    assert page.count("<article") == 4
    rows = list(csv.DictReader((tmp_path / "out" / "scores.csv").read_text(encoding="utf-8").splitlines()))
    assert sorted(row["lot"] for row in rows) == ["", "L <1>", "L <1>", "L <1>"]


def test_maps_and_overlays_are_known_as_such(lot, images, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    results = judged(lot, images, Path("in"))
    row = next(iter(results.rows.values()))
    assert results.holds(Path(row["map"]))
    assert results.holds(tmp_path / row["overlay"])
    assert not results.holds(Path(row["path"]))


def test_what_exceeds_the_limit_is_outlined():
    image, heat = np.zeros((40, 40, 3), np.uint8), np.zeros((40, 40), np.float32)
    heat[10:20, 10:20] = 5
    drawn = outlined(image, heat, 1.0)
    white = (drawn == 255).all(axis=2)
    assert white[10, 10:20].all()
    assert not white[14, 14]
    assert not (outlined(image, heat, 10.0) == 255).all(axis=2).any()


def test_wanted_maps_are_named():
    with pytest.raises(DataError, match="The kind of maps must be one of npy, tiff, none, got 'png'"):
        Wanted(maps="png")


def test_what_a_killed_run_left_half_written_is_swept(lot, images, tmp_path):
    results = judged(lot, images, tmp_path / "out")
    row = next(iter(results.rows.values()))
    half = Path(row["map"]).with_name(".x.npy.abcd1234.4194305.tmp")  # above the highest number that a process gets
    half.write_bytes(b"half")
    Results(tmp_path / "out", lot, Wanted())
    assert not half.exists()
    assert Path(row["map"]).exists()
