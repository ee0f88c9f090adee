"""Killed at any moment, a command leaves nothing half-written to be read, and the next command works.

Each command is killed at 20 random moments. Folders are kept between kills, so that what one left behind meets the next.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from PIL import Image

from sparcal.station.folder import StationFolder
from tests.support.tiny_station import demo

KILLS = 20
ENCODER = "bundled?size=64"


@dataclass
class Nursery:
    """Commands in children of a process that has imported everything."""

    process: subprocess.Popen[str]

    def start(self, words: list[str]) -> int:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()
        return int(self._answer())

    def finish(self) -> int:
        return int(self._answer())

    def run(self, *words: str | Path) -> int:
        self.start([str(word) for word in words])
        return self.finish()

    def kill(self, after: float, *words: str | Path) -> int:
        """The exit code: negative if the kill came in time."""
        child = self.start([str(word) for word in words])
        time.sleep(after)
        with contextlib.suppress(ProcessLookupError):  # it was faster
            os.kill(child, signal.SIGKILL)
        return self.finish()

    def _answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()


@pytest.fixture(scope="module")
def nursery():
    root = Path(__file__).parents[2]
    command = [sys.executable, "-W", "ignore", "-m", "tests.support.nursery"]
    settings = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, cwd=root, env=settings, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        found = Nursery(process)
        assert found._answer() == "ready\n"
        yield found
        process.stdin.close()
        process.wait(30)


@pytest.fixture(scope="module")
def line(tmp_path_factory, nursery):
    """Folders of images, and a station of 8 of them."""
    root = tmp_path_factory.mktemp("kill")
    parts = demo("moved", seed=3)
    groups = {"train": parts.train[:8], "normals": parts.lot_good[:4], "lot": parts.lot_good[4:10]}
    for folder, group in groups.items():
        (root / folder).mkdir()
        for part in group:
            Image.fromarray(part.image).save(root / folder / f"{part.name}.png")
    assert nursery.run("fit", root / "train", "--station", root / "station", "--encoder", ENCODER) == 0
    return root


def moments(nursery, count, seed, *words):
    """Random moments within the time that the command takes from start to end."""
    began = time.monotonic()
    assert nursery.run(*words) == 0
    whole = time.monotonic() - began
    rng = random.Random(seed)
    return [rng.uniform(0, whole) for _ in range(count)]


def whole_lots(station):
    """Every lot, after reading each of its files against its digest."""
    from sparcal.files.hashing import file_digest

    folder = StationFolder(station)
    names = []
    for record in folder.read_lots():
        for file, digest in record["files"].items():
            assert file_digest(folder.lot(record["name"]) / file) == digest
        names.append(record["name"])
    assert folder.active() is None or folder.active() in names
    return names


def tell(record_property, killed):
    """For the page about reliability."""
    record_property("tried", KILLS)
    record_property("ended", f"{killed} came before the command had ended")


def litter(folder):
    return [p.name for p in folder.rglob(".*") if p.name not in {".lock", ".fit.lock"}]


def test_fit(line, nursery, tmp_path, record_property):
    station = tmp_path / "station"
    words = ("fit", line / "train", "--station", station, "--encoder", ENCODER)
    times = moments(nursery, KILLS, 1, *words)
    expected = StationFolder(station).read_station()
    shutil.rmtree(station)
    killed = 0
    for after in times:
        code = nursery.kill(after, *words)
        killed += code == -signal.SIGKILL
        if (station / "station.json").exists():
            assert nursery.run("lots", station) == 0
            assert StationFolder(station).read_station()["own"] == expected["own"]
            shutil.rmtree(station)
        else:
            assert nursery.run("lots", station) == 2
    assert killed >= KILLS // 2
    tell(record_property, killed)
    shutil.rmtree(station, ignore_errors=True)
    nursery.kill(times[0], *words)
    if not (station / "station.json").exists():
        assert nursery.run(*words) == 0
    assert nursery.run("calibrate", station, line / "normals", "--lot", "a", "--correction", "identity") == 0
    assert whole_lots(station) == ["a"]
    assert litter(station) == []


def test_calibrate(line, nursery, tmp_path, record_property):
    station = shutil.copytree(line / "station", tmp_path / "station")
    words = ("calibrate", station, line / "normals", "--correction", "sparc", "--lot")
    times = moments(nursery, KILLS, 2, *words, "first")
    killed = 0
    for number, after in enumerate(times):
        code = nursery.kill(after, *words, f"lot {number}")
        killed += code == -signal.SIGKILL
        names = whole_lots(station)
        assert code != 0 or f"lot {number}" in names
        assert nursery.run("lots", station) == 0
        assert litter(station) == []
    assert killed >= KILLS // 2
    tell(record_property, killed)
    assert nursery.run(*words, "last") == 0
    assert whole_lots(station)[-1] == "last"
    assert nursery.run("score", station, line / "lot", "--lot", "last") == 0


def test_score(line, nursery, tmp_path, record_property):
    out = tmp_path / "out"
    words = ("score", line / "station", line / "lot", "--out", out)
    times = moments(nursery, KILLS, 3, *words)
    expected = rows(out)
    shutil.rmtree(out)
    killed = 0
    for after in times:
        code = nursery.kill(after, *words)
        killed += code == -signal.SIGKILL
        for path, row in rows(out).items():
            assert row == expected[path]
            assert Path(row["map"]).stat().st_size == Path(expected[path]["map"]).stat().st_size
            with Image.open(row["overlay"]) as drawn:
                drawn.load()
        assert nursery.run("lots", line / "station") == 0
        if len(rows(out)) == len(expected):
            shutil.rmtree(out)
    assert killed >= KILLS // 2
    tell(record_property, killed)
    assert nursery.run(*words) == 0
    assert rows(out) == expected
    assert (out / "index.html").exists()


def rows(out):
    """The whole lines of the journal, by path."""
    path = out / "scores.jsonl"
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    return {row["path"]: row for row in (json.loads(line) for line in lines if line.endswith(b"\n"))}
