"""`sparcal lots` and `sparcal show`: what a threshold does stands beside it, and it can be taken back."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

import pytest

from sparcal.calibration.defaults import OWN_REFERENCE
from sparcal.cli import run
from sparcal.corrections import STATION_REFERENCE


@pytest.fixture
def station(calibrated_line):
    """The station, with the calibrated threshold back afterwards."""
    path = str(calibrated_line / "station")
    yield path
    assert run(["show", path, "--threshold", "calibrated"]) == 0


def shown(station, capsys, *words):
    capsys.readouterr()
    assert run(["show", station, *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_threshold_moved_by_hand_shows_what_it_does(station, capsys):
    record = shown(station, capsys)
    good = record["image"]["lot"]
    planted = [one["score"] for one in record["self_test"]["defects"] if one["plain"]]
    assert record["threshold"]["basis"] != "pooled", "six parts cannot show that they agree"
    limit = sorted(good)[-2]
    moved = shown(station, capsys, "--threshold", str(limit))
    assert moved["effect"] == {"rejected": 1, "good": 6, "found": sum(s > limit for s in planted), "planted": 64}
    assert run(["show", station]) == 0
    said = capsys.readouterr().out
    assert "was set by hand" in said
    found = moved["effect"]["found"]
    assert f"rejects 1 of 6 good parts, finds {found} of 64 planted." in said
    assert f"\n{found} of 64 planted defects are found." in said, (
        "sentence and tables are those of the threshold in force"
    )
    kinds = said[said.index("Planted defects by kind") : said.index("By size")]
    assert sum(int(row[0]) for row in re.findall(r"│\s+(\d+) │\s+(\d+) │", kinds)) == found
    assert f"Checks, at the calibrated threshold {record['threshold']['value']:.4g}" in said
    assert f"<- {limit:.4g}" in said


def test_the_chance_of_finding_defects_of_a_size_is_said(station, capsys):
    chance = shown(station, capsys, "--defect-size", "40")["chance_at_size"]
    assert 0 < shown(station, capsys, "--defect-size", "3")["chance_at_size"] <= chance <= 1
    assert run(["show", station, "--defect-size", "40"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"Of defects that are 40 pixels long, plain and faint ones together, {chance:.0%} are found" in said
    assert "chance_at_size" not in shown(station, capsys)


def test_contrast_makes_the_chance_of_a_size_sharper(station, capsys):
    faint, plain = (
        shown(station, capsys, "--defect-size", "20", "--defect-contrast", grey)["chance_at_size"]
        for grey in ("3", "80")
    )
    assert 0 <= faint < plain <= 1
    assert run(["show", station, "--defect-size", "20", "--defect-contrast", "80"]) == 0
    assert f"20 pixels long, 80 grey levels strong, {plain:.0%} are found" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--defect-size", "0"], "The size of a defect must be"),
        (["--defect-size", "20", "--defect-contrast", "300"], "The contrast of a defect must be"),
        (["--defect-contrast", "30"], "--defect-contrast needs --defect-size beside it, got none"),
    ],
)
def test_defects_that_cannot_be_are_refused(station, words, message, capsys):
    assert run(["show", station, *words]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_file_gets_everything_that_is_said_about_a_lot(station, capsys):
    capsys.readouterr()
    assert run(["show", station]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("Lot L1, ")
    for said in ("At its own threshold", "planted defects are found", "Checks", "Scores of good parts"):
        assert said in out


@pytest.mark.parametrize("threshold", ["0", "1e9"])
def test_a_threshold_beyond_all_scores_has_its_row(station, threshold, capsys):
    assert run(["show", station, "--threshold", threshold]) == 0
    lines = capsys.readouterr().out.splitlines()
    moved = f"From now on the threshold is {float(threshold):.4g}, calibrated was "
    assert lines[1].startswith(moved), "what was asked for stands above all that was known before"
    rows = [row for row in lines if f"<- {float(threshold):.4g}" in row]
    assert len(rows) == 1
    assert ("below" if threshold == "0" else "above") in rows[0]


def test_the_calibrated_threshold_comes_back(station, capsys):
    before = shown(station, capsys)["threshold"]
    assert shown(station, capsys, "--threshold", "0")["threshold"]["basis"] == "by hand"
    assert shown(station, capsys, "--threshold", "calibrated")["threshold"] == before


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("nan", "finite number of at least 0, got nan"),
        ("inf", "finite number of at least 0, got inf"),
        ("-inf", "finite number of at least 0, got -inf"),
        ("-1", "finite number of at least 0, got -1"),
        ("high", "--threshold takes a score or 'calibrated', got 'high'"),
    ],
)
def test_a_threshold_that_is_none_is_refused(station, said, message, capsys):
    before = shown(station, capsys)["threshold"]
    assert run(["show", station, f"--threshold={said}"]) == 2
    assert message in (error := capsys.readouterr().err)
    assert error.count("\n") == 1
    assert shown(station, capsys)["threshold"] == before


def test_the_stations_own_parts_count_where_no_lot_does(station, capsys):
    assert run(["lots", station, "--own"]) == 0
    try:
        own = shown(station, capsys)
        assert own["correction"] == STATION_REFERENCE
        assert own["effect"]["good"] == 12
        assert run(["show", station, "--against", "L1"]) == 0
        assert "station's own" in (table := capsys.readouterr().out)
        assert "identity" not in table
    finally:
        assert run(["lots", station, "--activate", "L1"]) == 0


def test_a_list_needs_no_torch(station):
    code = f"import sys; from sparcal.cli import run; run(['lots', {station!r}]); sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    assert OWN_REFERENCE == STATION_REFERENCE


def test_lots_that_have_gone_are_no_reason_to_judge_by_something_else(calibrated_line, tmp_path, capsys):
    kept = tmp_path / "station"
    shutil.copytree(calibrated_line / "station", kept)
    shutil.rmtree(kept / "lots")
    for words in (["lots"], ["show"], ["score", str(calibrated_line / "lot")]):
        command, *more = words
        assert run([command, str(kept), *more]) == 1, words
        said = capsys.readouterr()
        assert "lots/L1 was expected to hold the active lot 'L1', got no folder" in said.err
        assert "judges with its own reference" not in said.out
    assert run(["lots", str(kept), "--own", "--operator", "Ada"]) == 0
    assert run(["score", str(kept), str(calibrated_line / "lot"), "--json"]) == 0
