"""`sparcal-line`: the verdicts, rows and files of `sparcal score`, from an exported lot and without torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import pytest

from sparcal.cli import run
from sparcal.cli.line import line_app

ROOT = Path(__file__).parents[2]
FIELDS = ["path", "score", "threshold", "verdict", "map", "reason"]

# What a line has not: everything that only fitting and calibrating need.
BARE = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "timm", "scipy", "sklearn", "numba", "onnx"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refuse())
from sparcal.cli.line import main
main(sys.argv[1:])
"""


def line(*words):
    return run([str(word) for word in words], commands=line_app)


def printed(capsys):
    return json.loads(capsys.readouterr().out)


@pytest.fixture(scope="module")
def exported(calibrated_line, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported") / "L1-onnx"
    assert run(["export", str(calibrated_line / "station"), "--lot", "L1", "--out", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def at_the_station(calibrated_line, tmp_path_factory):
    """Rows of `sparcal score --json`, by path."""
    out = tmp_path_factory.mktemp("station") / "out"
    call = [sys.executable, "-m", "sparcal", "score", calibrated_line / "station", calibrated_line / "lot"]
    done = subprocess.run([*call, "--lot", "L1", "--out", out, "--json"], capture_output=True, text=True, check=True)
    return {row["path"]: row for row in json.loads(done.stdout)}


@pytest.mark.parametrize("words", [["lots", "nowhere"], ["score", "nowhere", "."]])
def test_a_model_that_is_not_there_is_a_wrong_call(words, calibrated_line, monkeypatch, capsys):
    monkeypatch.chdir(calibrated_line / "lot")
    assert line(*words) == 2
    said = "Error: There is no exported model at nowhere: check the path, or make one with sparcal export STATION.\n"
    assert capsys.readouterr() == ("", said)


def agree(rows, station_rows):
    assert [list(row) for row in rows] == [FIELDS] * len(rows)
    assert {row["path"] for row in rows} == set(station_rows)
    for row in rows:
        expected = station_rows[row["path"]]
        assert row["score"] == pytest.approx(expected["score"], rel=1e-3)
        assert row["threshold"] == pytest.approx(expected["threshold"], rel=1e-6)
        assert (row["verdict"], row["reason"]) == (expected["verdict"], expected["reason"])
        if row["map"] is not None:
            assert Path(row["map"]).name == Path(expected["map"]).name
            here, there = np.load(row["map"]), np.load(expected["map"])
            np.testing.assert_allclose(here, there, rtol=1e-3, atol=1e-3 * np.abs(there).max())


def test_rows_and_files_are_those_of_sparcal_score(calibrated_line, exported, at_the_station, tmp_path):
    call = [sys.executable, "-c", BARE, "score", exported, calibrated_line / "lot", "--out", tmp_path / "out", "--json"]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    agree(rows, at_the_station)
    assert {row["verdict"] for row in rows} == {"pass", "fail"}
    assert "Lot L1, exported: the threshold is" in done.stderr
    written = {path.relative_to(tmp_path / "out").parts[0] for path in (tmp_path / "out").rglob("*")}
    assert written == {"scores.jsonl", "scores.csv", "maps", "overlays", "index.html"}
    page = (tmp_path / "out" / "index.html").read_text()
    assert "Lot L1, exported" in page
    assert "Checks of this calibration" not in page


def test_a_watched_folder(calibrated_line, exported, at_the_station, tmp_path, capsys):
    words = (exported, calibrated_line / "lot", "--out", tmp_path, "--maps", "none", "--no-overlays", "--json")
    assert line("score", *words, "--watch", "--idle", "0") == 0
    events = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
    assert [event["event"] for event in events][:1] == ["lot"]
    verdicts = [event for event in events if event["event"] == "verdict"]
    assert {one["path"]: one["verdict"] for one in verdicts} == {
        path: row["verdict"] for path, row in at_the_station.items()
    }
    assert events[-1]["judged"] == len(at_the_station)


def test_without_json_a_table_and_a_sentence(calibrated_line, exported, capsys):
    assert line("score", exported, next((calibrated_line / "lot").iterdir())) == 0
    out = capsys.readouterr().out
    assert "threshold" in out
    assert "of 1 fail." in out


def test_lots(exported, capsys):
    assert line("lots", exported, "--json") == 0
    assert printed(capsys) == [{"lot": "L1", "file": str(exported / "model.onnx")}]
    assert line("lots", exported) == 0
    assert "L1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--lot", "L7"), "judges by the lots L1, got 'L7'"),
        (("--maps", "jpg"), "The kind of maps"),
        (("--watch",), "--watch needs one folder of images, --out"),
        (("--idle", "3"), "--idle says when --watch ends"),
    ],
)
def test_wrong_calls_end_with_2(calibrated_line, exported, words, message, capsys):
    assert line("score", exported, calibrated_line / "lot", *words) == 2
    assert message in capsys.readouterr().err


def test_an_image_that_cannot_be_judged_ends_with_1(exported, tmp_path, capsys):
    (tmp_path / "a.png").write_bytes(b"no image")
    assert line("score", exported, tmp_path, "--json") == 1
    (row,) = printed(capsys)
    assert (row["verdict"], row["score"]) == ("error", None)


@pytest.mark.slow
def test_an_install_of_its_own_is_small_and_judges(calibrated_line, exported, at_the_station, tmp_path):
    """Builds the wheel, installs it where there is nothing else, and judges; needs a package index."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", ROOT / "packages" / "line", "-w", tmp_path / "wheel"], check=True)
    (wheel,) = (tmp_path / "wheel").iterdir()
    home = tmp_path / "line"
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    subprocess.run([*pip, "--python", python, "install", "-c", ROOT / "constraints.txt", wheel], check=True)
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    found = "import importlib.util as u; print([n for n in ('torch', 'timm', 'scipy') if u.find_spec(n)])"
    done = subprocess.run([python, "-c", found], capture_output=True, text=True, check=True, env=clean, cwd=tmp_path)
    assert done.stdout == "[]\n"
    size = sum(file.stat().st_size for file in (home / "lib").rglob("*") if file.is_file() and not file.is_symlink())
    assert size < 400e6, f"{size / 1e6:.0f} MB"
    call = [home / "bin" / "sparcal-line", "score", exported, calibrated_line / "lot", "--out", tmp_path / "out"]
    done = subprocess.run([*call, "--json"], capture_output=True, text=True, check=True, env=clean, cwd=tmp_path)
    agree(json.loads(done.stdout), at_the_station)
