"""`sparcal score --watch`: verdicts as they fall, the lot that judges is followed, a folder that goes away is told."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from threading import Thread
from types import SimpleNamespace

import pytest
from PIL import Image

from sparcal.cli import run
from sparcal.cli.watch import WatchedStream
from sparcal.station.folder import StationFolder
from sparcal.station.station import Station
from tests.support.tiny_station import TinyEncoder, demo, pictures


@pytest.fixture
def place(calibrated_line, tmp_path):
    """A folder to watch, in it one image; the lot that was active is so again afterwards."""
    (tmp_path / "in").mkdir()
    deliver(calibrated_line, tmp_path, 0)
    yield tmp_path
    StationFolder(calibrated_line / "station").activate("L1", None)


def deliver(line, place, number):
    """An image arrives, from a camera whose clock is a year ahead."""
    source = sorted((line / "lot").iterdir())[number]
    shutil.copy(source, place / "in" / f"{number}.png")
    ahead = time.time() + 365 * 24 * 3600
    os.utime(place / "in" / f"{number}.png", (ahead, ahead))


def words(line, place, *more):
    return ["score", str(line / "station"), str(place / "in"), "--watch", "--out", str(place / "out"), *more]


def wait_for_rows(place, count):
    journal = place / "out" / "scores.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if journal.exists() and journal.read_text().count("\n") >= count:
            return
        time.sleep(0.05)
    raise AssertionError(f"no {count} rows after a minute")


def test_a_running_watcher_follows_the_line(calibrated_line, place, capsys):
    station = StationFolder(calibrated_line / "station")

    def shift():
        wait_for_rows(place, 1)
        station.activate(None, "Ada")
        deliver(calibrated_line, place, 1)
        wait_for_rows(place, 2)
        shutil.move(place / "in", place / "away")
        time.sleep(2.5)
        shutil.move(place / "away", place / "in")
        deliver(calibrated_line, place, 2)

    working = Thread(target=shift)
    working.start()
    assert run(words(calibrated_line, place, "--idle", "5", "--json")) == 0
    working.join()
    events = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
    assert [e["event"] for e in events] == ["lot", "verdict", "lot", "verdict", "folder", "folder", "verdict", "end"]
    lots, verdicts = ([e for e in events if e["event"] == kind] for kind in ("lot", "verdict"))
    assert [e["lot"] for e in lots] == ["L1", None]
    assert [(e["lot"], e["threshold"]) for e in verdicts] == [
        ("L1", lots[0]["threshold"]),
        (None, lots[1]["threshold"]),
        (None, lots[1]["threshold"]),
    ]
    for verdict in verdicts:
        assert {"path", "score", "threshold", "verdict", "map"} <= verdict.keys()
        assert os.path.exists(verdict["map"])
    assert [e["there"] for e in events if e["event"] == "folder"] == [False, True]
    assert "No such file or directory" in events[4]["sentence"]
    failed = sum(e["verdict"] == "fail" for e in verdicts)
    assert events[-1] == {"event": "end", "judged": 3, "fail": failed, "error": 0}
    page = (place / "out" / "index.html").read_text(encoding="utf-8")
    assert page.count("<article") == 3
    assert "1 by lot L1 at" in page


def test_people_read_the_same_in_sentences(calibrated_line, place, capsys):
    (place / "in" / "broken.png").write_bytes(b"no image")
    Thread(target=lambda: (wait_for_rows(place, 2), shutil.move(place / "in", place / "away"))).start()
    assert run(words(calibrated_line, place, "--idle", "2")) == 1
    told, said = capsys.readouterr()
    assert "From now on: Lot L1" in told
    assert "broken.png must be a readable PNG" in told
    assert "must be readable, got No such file or directory" in said
    assert "Waiting for it." in said
    assert "1 could not be judged" in told


def test_a_service_manager_ends_it_with_a_page(calibrated_line, place):
    command = [sys.executable, "-m", "sparcal", *words(calibrated_line, place, "--json")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            lines = [json.loads(process.stdout.readline()) for _ in range(2)]  # told as they fall, not at the end
            process.send_signal(signal.SIGTERM)
            lines.append(json.loads(process.stdout.readline()))
            assert process.wait(30) == 0
        finally:
            process.kill()
    assert [line["event"] for line in lines] == ["lot", "verdict", "end"]
    assert (place / "out" / "index.html").is_file()


def test_results_in_the_watched_folder_are_not_judged(calibrated_line, place, capsys):
    inside = ["--out", str(place / "in" / "out"), "--maps", "tiff"]
    assert run([*words(calibrated_line, place)[:4], *inside, "--idle", "2", "--json"]) == 0
    events = [json.loads(text)["event"] for text in capsys.readouterr().out.splitlines()]
    assert events == ["lot", "verdict", "end"]


def test_results_among_the_images_are_left_out_and_counted(calibrated_line, place, capsys):
    call = ["score", str(calibrated_line / "station"), str(place / "in"), "--out", str(place / "in"), "--json"]
    assert run(call) == 0
    first = capsys.readouterr()
    assert "left out" not in first.err
    Image.open(place / "in" / "0.png").transpose(Image.Transpose.ROTATE_180).save(place / "in" / "1.png")
    assert run(call) == 0
    again = capsys.readouterr()
    assert "1 maps and overlays of an earlier run lie among the images; they are left out." in again.err
    assert len(json.loads(again.out)) == 2
    assert run([*call[:2], str(place / "in" / "overlays"), *call[3:]]) == 2
    assert "Judging needs images, got 2 maps and overlays of an earlier run" in capsys.readouterr().err


@pytest.mark.parametrize("seconds", ["-1", "nan"])
def test_an_idle_time_that_is_none_is_refused(calibrated_line, place, seconds, capsys):
    assert run(words(calibrated_line, place, f"--idle={seconds}")) == 2
    assert "--idle must be a number of seconds of at least 0" in capsys.readouterr().err


def test_parts_that_look_different_are_told_and_so_is_a_broken_promise(tmp_path):
    """Announced once, with the image they began with, and told again by the next watch."""
    station = Station.fit(pictures(demo().train), path=tmp_path / "station", encoder=TinyEncoder())
    results = SimpleNamespace(folder=tmp_path, rows={})
    told = []
    tell = lambda event, facts: told.append((event, facts))  # noqa: E731
    stream = WatchedStream(station.own(), results, tell)
    assert (
        told[0][1]["monitored"] == "Shifts are watched for, with on average at most one false alarm in 100,000 parts."
    )
    for judgement in station.own().stream([image // 2 for image in pictures(demo().lot_good)]):
        results.rows[str(judgement.path)] = {**judgement.row(), "lot": None}
        stream.look(judgement)
    assert [event for event, _ in told] == ["lot", "promise", "shift"]
    assert told[1][1]["rejected"] > 0
    assert told[2][1]["words"][0].startswith("darker (-")
    again = []
    WatchedStream(station.own(), results, lambda event, facts: again.append((event, facts)))
    assert [event for event, _ in again] == ["lot", "shift"]
    assert again[1][1]["first"] == told[2][1]["first"]
