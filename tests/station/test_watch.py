"""A folder in which images arrive: each once, when it is whole, whatever the clocks say; a folder that goes away is told."""

from __future__ import annotations

import json
import os
import shutil
import time

import pytest
from PIL import Image

from sparcal.files.hashing import file_digest
from sparcal.station.judged_folder import Results, Wanted
from sparcal.station.station import Station
from sparcal.station.watch import looks
from tests.support.tiny_station import TinyEncoder, demo, pictures

YEAR_S = 365 * 24 * 3600


@pytest.fixture
def images(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for part in demo("moved").lot_bad[:3]:
        Image.fromarray(part.image).save(folder / f"{part.name}.png")
    return folder


def new_in(folder, known=set, **settings):
    return [path for look in looks(folder, known, idle_s=0.05, poll_s=0.01, **settings) for path in look.new]


def test_each_arrival_is_handed_out_once(images):
    assert new_in(images) == sorted(images.iterdir())


@pytest.mark.parametrize("ahead_s", [-YEAR_S, 0, 120, YEAR_S])
def test_a_file_is_judged_whatever_the_cameras_clock_says(images, ahead_s):
    path = next(images.iterdir())
    when = time.time() + ahead_s
    os.utime(path, (when, when))
    assert path in new_in(images)


def test_a_restart_knows_what_was_judged_by_its_content(images, tmp_path):
    station = Station.fit(pictures(demo().train), path=tmp_path / "station", encoder=TinyEncoder())
    results = Results(tmp_path / "out", station.own(), Wanted())
    for judgement in results.lot.stream(sorted(images.iterdir())):
        results.add(judgement)
    first = sorted(images.iterdir())[0]
    first.rename(images / "moved.png")  # the same content under a new name
    (images / sorted(images.iterdir())[1].name).write_bytes(b"new content of an old name")
    again = Results(tmp_path / "out", station.own(), Wanted())
    new = new_in(images, again.known)
    assert [path.read_bytes() for path in new] == [b"new content of an old name"]
    for judgement in again.lot.stream(new):
        row = again.add(judgement)
    assert (row["verdict"], row["sha256"] in again.known()) == ("error", True)
    assert new_in(images, again.known) == []
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

    for look in looks(images, known, idle_s=0.05, poll_s=0.01):
        handed_out += [path.name for path in look.new]
        assert growing not in look.new or growing.stat().st_size == 9
    assert handed_out[-1] == "growing.png", "it came last, when it was whole"
    assert len(handed_out) == len(set(handed_out)) == len(list(images.iterdir()))


def test_an_empty_folder_waits(tmp_path):
    assert {look.away for look in looks(tmp_path, set, idle_s=0.05, poll_s=0.01)} == {None}


def test_what_is_left_out_is_never_handed_out(images):
    one = next(images.iterdir())
    assert one not in new_in(images, leave_out=lambda path: path == one)


def test_a_folder_that_goes_away_is_told_and_its_return_too(images, tmp_path):
    known: set[str] = set()
    said, late = [], tmp_path / "late.png"
    Image.fromarray(demo("moved").lot_good[9].image).save(late)
    for number, look in enumerate(looks(images, lambda: set(known), idle_s=0.3, poll_s=0.01)):
        said.append(look.away)
        known.update(file_digest(path) for path in look.new)
        if number == 3:
            shutil.move(images, tmp_path / "gone")
        if number == 6:
            shutil.move(tmp_path / "gone", images)
            late.rename(images / "late.png")
    away = f"The folder {images} must be readable, got No such file or directory: check that it is there"
    assert [text is not None for text in said[:7]] == [False] * 4 + [True] * 3
    assert all(away in text for text in said[4:7])
    assert set(said[7:]) == {None}
    assert len(known) == 4, "what arrived after its return was found, and nothing was handed out twice"


def test_a_file_that_cannot_be_read_is_handed_out_so_that_somebody_hears_of_it(images, monkeypatch):
    locked = sorted(images.iterdir())[1]
    closed = True

    def digest(path):
        if closed and path == locked:
            raise PermissionError(13, "Permission denied")
        return file_digest(path)

    monkeypatch.setattr("sparcal.station.watch.file_digest", digest)
    found = []
    for number, look in enumerate(looks(images, set, idle_s=0.2, poll_s=0.01)):
        found += look.new
        if number == 5:
            assert found.count(locked) == 1
            closed = False
    assert found.count(locked) == 2, "once while it could not be read, and once when it could"
    assert len(found) == 4
