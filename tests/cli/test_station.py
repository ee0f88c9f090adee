"""The line's own commands from fit to score on rendered parts, what they leave behind, and what they refuse."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sparcal.cli import run
from sparcal.rendering.parts import make_demo
from sparcal.station.judged_folder import JOURNAL, worst_first

SIZE = 96


@pytest.fixture(scope="module")
def line(tmp_path_factory):
    """A folder with train/, normals/ and lot/, a fitted station, and a calibrated lot L1."""
    root = tmp_path_factory.mktemp("line")
    parts = make_demo(5, train=12, good=10, bad=6, size=SIZE)
    groups = {"train": parts.train, "normals": parts.lot_good[:6], "lot": parts.lot_good[6:] + parts.lot_bad}
    for folder, group in groups.items():
        (root / folder).mkdir()
        for part in group:
            Image.fromarray(part.image).save(root / folder / f"{part.name}.png")
    words = ["--station", str(root / "station"), "--encoder", f"bundled?size={SIZE}", "--operator", "Ada"]
    assert run(["fit", str(root / "train"), *words]) == 0
    assert run(["calibrate", str(root / "station"), str(root / "normals"), "--lot", "L1", "--activate"]) == 0
    return root


def test_lots_and_show(line, capsys):
    station = str(line / "station")
    assert run(["lots", station, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["lot"], row["active"], row["images"]) == ("L1", True, 6)
    assert run(["show", station, "--lot", "L1", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert {check["verdict"] for check in shown["checks"]} <= {"ok", "look", "stop"}
    assert shown["threshold"]["value"] > 0
    assert run(["show", station]) == 0
    assert "Scores of good parts behind the threshold" in capsys.readouterr().out


def test_rolling_back_is_kept_in_the_history(line, capsys):
    station = str(line / "station")
    assert run(["lots", station, "--own", "--operator", "Bo"]) == 0
    assert "judges with its own reference" in capsys.readouterr().out
    assert run(["lots", station, "--activate", "L1"]) == 0
    assert "Nobody is named in the history for this" in capsys.readouterr().err
    assert run(["lots", station, "--activate", "L1", "--operator", "Bo"]) == 0
    assert "Nobody is named" not in capsys.readouterr().err
    capsys.readouterr()
    assert run(["lots", station, "--history", "--json"]) == 0
    history = json.loads(capsys.readouterr().out)
    assert [entry.get("lot") for entry in history if entry.get("operator") == "Bo"] == [None, "L1"]


def test_score_for_machines(line, capsys):
    assert run(["score", str(line / "station"), str(line / "lot"), "--lot", "L1", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 10
    assert {"path", "score", "threshold", "verdict", "map"} <= set(rows[0])
    assert all(row["verdict"] == ("fail" if row["score"] > row["threshold"] else "pass") for row in rows)
    assert [row["score"] for row in rows] == sorted((row["score"] for row in rows), reverse=True)


def test_score_leaves_tables_maps_and_a_page_and_repeats_nothing(line, tmp_path, capsys):
    out = tmp_path / "out"
    words = ["score", str(line / "station"), str(line / "lot"), "--lot", "L1", "--out", str(out), "--maps", "tiff"]
    assert run([*words, "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    rows = list(csv.DictReader((out / "scores.csv").read_text().splitlines()))
    assert [row["path"] for row in rows] == [row["path"] for row in first]
    native = np.asarray(Image.open(out / first[0]["map"]))
    assert (native.shape, native.dtype) == ((SIZE, SIZE), np.float32)
    assert len(list((out / "overlays").iterdir())) == 10
    page = (out / "index.html").read_text()
    assert page.count("<article") == 10
    assert "http" not in page
    journal = (out / JOURNAL).read_bytes()
    (out / JOURNAL).write_bytes(journal + b'{"path": "cut sho')  # as a kill would leave it
    assert run([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == first
    assert (out / JOURNAL).read_bytes() == journal


def test_a_bad_image_is_named_and_does_not_stop_the_others(line, tmp_path, capsys):
    (tmp_path / "broken.png").write_bytes(b"no image")
    good = next((line / "lot").glob("good*"))
    Image.open(good).save(tmp_path / "good.png")
    assert run(["score", str(line / "station"), str(tmp_path), "--json"]) == 1
    rows = json.loads(capsys.readouterr().out)
    assert rows[0]["verdict"] == "error"
    assert "broken.png" in rows[0]["reason"]
    assert rows[1]["score"] is not None


def test_worst_first_puts_what_could_not_be_judged_on_top():
    rows = [{"verdict": "pass", "score": s, "path": str(s)} for s in (1.0, 3.0)]
    rows.append({"verdict": "error", "score": None, "path": "x"})
    assert [row["path"] for row in worst_first(rows)] == ["x", "3.0", "1.0"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["calibrate", "{station}", "{normals}", "--lot", ""], 2, "The value of --lot must not be empty"),
        (["calibrate", "{station}", "{normals}", "--lot", "L1"], 2, "has a lot 'L1' already, and lots never change"),
        (
            ["calibrate", "{station}", "{normals}", "--lot", "x", "--correction", "sparq"],
            2,
            "There is no correction 'sparq'; choose from auto, identity, sparc",
        ),
        (["calibrate", "{station}", "{normals}", "--lot", "x", "--false-reject", "2"], 2, "got 2"),
        (["calibrate", "{station}", "{normals}", "--lot", "x", "--k", "7"], 2, "--k takes the first 7 images, got 6"),
        (["export", "{station}", "--lot", "nope"], 2, "has no lot 'nope'; it has L1."),
        (["show", "{station}", "--threshold=nan"], 2, "finite number of at least 0, got nan"),
        (["calibrate", "{station}", "{nowhere}", "--lot", "x"], 2, "does not exist"),
        (["calibrate", "{nowhere}", "{normals}", "--lot", "x"], 2, "station"),
        (["score", "{station}", "{lot}", "--lot", "L9"], 2, "L9"),
        (
            ["score", "{station}", "{lot}", "--maps", "png"],
            2,
            "The kind of maps must be one of npy, tiff, none, got 'png'",
        ),
        (["score", "{station}", "{lot}", "--idle", "1"], 2, "--idle says when --watch ends, got it without --watch"),
        (["score", "{station}", "{lot}", "--watch"], 2, "--watch needs one folder of images, --out"),
        (["score", "{station}", "{lot}", "--engine", "cloud"], 2, "--engine must be local or ray, got 'cloud'"),
        (["lots", "{station}", "--own", "--activate", "L1"], 2, "got both"),
        (["fit", "{train}", "--station", "{station}", "--encoder", "bundled"], 2, "station"),
        (["fit", "{train}", "--station", "{nowhere}", "--host", "patchcor"], 2, "There is no host 'patchcor'"),
        (["fit", "{nowhere}", "--station", "{nowhere}"], 2, "does not exist"),
    ],
)
def test_refusals_in_one_sentence(line, tmp_path, words, code, message, capsys):
    places = {name: str(line / name) for name in ("station", "normals", "lot", "train")}
    said = [word.format(**places, nowhere=tmp_path / "nowhere") for word in words]
    assert run(said) == code
    error = capsys.readouterr().err
    assert error.startswith("Error: ")
    assert message in error
    assert error.count("\n") == 1


def test_results_of_another_lot_are_not_mixed(line, tmp_path, capsys):
    out = str(tmp_path / "out")
    station, lot = str(line / "station"), str(line / "lot")
    assert run(["score", station, lot, "--lot", "L1", "--out", out, "--json"]) == 0
    assert run(["lots", station, "--own"]) == 0
    capsys.readouterr()
    assert run(["score", station, lot, "--out", out]) == 2
    assert "holds results of L1 with threshold" in capsys.readouterr().err
    assert run(["lots", station, "--activate", "L1"]) == 0


def test_watching_judges_what_arrives_once(line, tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    sources = sorted((line / "lot").iterdir())
    command = [
        sys.executable,
        "-m",
        "sparcal",
        "score",
        str(line / "station"),
        str(folder),
        "--watch",
        "--out",
        str(out),
    ]

    def watch_until(count: int) -> None:
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 90
            while time.monotonic() < deadline and _lines(out) < count:
                time.sleep(0.2)
        finally:
            process.send_signal(signal.SIGKILL if count == 1 else signal.SIGINT)
            process.wait(30)

    (folder / "a.png").write_bytes(sources[0].read_bytes())
    os.utime(folder / "a.png", (1, 1))
    watch_until(1)
    (folder / "b.png").write_bytes(sources[1].read_bytes())
    os.utime(folder / "b.png", (1, 1))
    watch_until(2)
    names = [Path(json.loads(line)["path"]).name for line in (out / JOURNAL).read_text().splitlines()]
    assert names == ["a.png", "b.png"]


def _lines(out: Path) -> int:
    return len((out / JOURNAL).read_text().splitlines()) if (out / JOURNAL).exists() else 0
