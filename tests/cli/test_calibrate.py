"""`sparcal calibrate`: the record for machines, plain words for people, and 1 where a check says stop."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from PIL import Image

from sparcal.calibration.check import Check
from sparcal.calibration.defaults import FALSE_REJECT
from sparcal.cli import run
from sparcal.cli.calibrate import check_rows

JARGON = re.compile(r"spreads|\blift|left out in turn|identity|energy|out of fold", re.IGNORECASE)


@pytest.fixture
def station(calibrated_line, tmp_path):
    """A copy of the station, so that new lots do not stay."""
    return str(shutil.copytree(calibrated_line / "station", tmp_path / "station"))


def test_machines_get_the_correction_and_the_self_test(calibrated_line, station, capsys):
    assert run(["calibrate", station, str(calibrated_line / "normals"), "--lot", "L2", "--json"]) in (0, 1)
    record = json.loads(capsys.readouterr().out)
    tested = record["self_test"]
    assert record["correction"] == record["choice"]["correction"]
    assert {"planted", "found", "before", "by_kind", "by_size", "a90"} <= set(tested)
    assert tested["planted"] == 64 == sum(planted for _, planted in tested["by_kind"].values())
    assert sum(row["planted"] for row in tested["by_size"]) == 96
    assert record["image_threshold"]["false_reject"] == FALSE_REJECT == 0.05
    assert record["active"] is (record["verdict"] != "stop")


def test_people_read_the_choice_first_and_no_jargon(calibrated_line, station, capsys):
    words = ["calibrate", station, str(calibrated_line / "normals"), "--lot", "L2", "--activate"]
    assert run(words) == 0
    said = capsys.readouterr()
    assert re.match(r"At its own threshold the station would reject \d of 6 good parts of this lot\. Of 64 ", said.out)
    assert re.search(r"rejects \d of 6 good parts, finds \d+ of 64 planted\.", said.out)
    assert not JARGON.search(said.err + said.out)
    assert said.out.index("by kind") < said.out.index("By size") < said.out.index("Checks")


def test_a_stop_ends_with_1_and_says_what_to_do(calibrated_line, station, tmp_path, capsys):
    twice = tmp_path / "twice"
    shutil.copytree(calibrated_line / "normals", twice)
    first = sorted(twice.iterdir())[0]
    Image.open(first).save(twice / "again.png")
    assert run(["calibrate", station, str(twice), "--lot", "L2"]) == 1
    said = capsys.readouterr().out
    assert 'is written but does not judge, because "The same part twice?" says stop: ' in said
    assert "calibrate again under another name" in said
    assert f"sparcal lots {station} --activate 'L2' --reason" in said
    assert str(twice) not in said, "the table names the files, and leaves their folder out"
    assert run(["calibrate", station, str(twice), "--lot", "L3", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["active"] is False
    assert run(["calibrate", station, str(twice), "--lot", "L4", "--activate"]) == 1, "nobody says why"
    assert "says stop: " in capsys.readouterr().out


def test_a_lot_judges_past_a_stop_for_a_reason_that_is_kept(calibrated_line, station, tmp_path, capsys):
    twice = tmp_path / "twice"
    twice.mkdir()
    first = sorted((calibrated_line / "normals").iterdir())[0]
    for name in ("a.png", "b.png"):
        shutil.copy(first, twice / name)
    words = ["calibrate", station, str(twice), "--lot"]
    assert run([*words, "L2", "--reason", "Only one part was there."]) == 0
    assert "judges from now on, although" in capsys.readouterr().out
    assert run([*words, "L3", "--no-activate", "--reason", "Not yet."]) == 1
    assert "does not judge" in capsys.readouterr().out
    assert run(["lots", station, "--activate", "L3"]) == 2
    error = capsys.readouterr().err
    assert "A check of lot 'L3' says stop, so it judges only if somebody gives a reason, got none" in error
    assert run(["lots", station, "--activate", "L3", "--reason", "  "]) == 2, "blanks are no reason"
    assert run([*words, "L4", "--reason", "  "]) == 1
    assert "does not judge" in capsys.readouterr().out
    assert run(["lots", station, "--activate", "L3", "--reason", "The shift lead agrees.", "--operator", "Bo"]) == 0
    assert run(["lots", station, "--activate", "L1", "--reason", "No check stops this one."]) == 0
    capsys.readouterr()
    assert run(["lots", station, "--history", "--json"]) == 0
    entries = [entry for entry in json.loads(capsys.readouterr().out) if entry.get("lot") in ("L2", "L3")]
    kept = [(entry["event"], entry["lot"], entry.get("reason")) for entry in entries]
    assert kept == [
        ("calibrate", "L2", "Only one part was there."),
        ("calibrate", "L3", None),
        ("activate", "L3", "The shift lead agrees."),
    ]
    assert run(["lots", station, "--history"]) == 0
    assert "The shift lead agrees." in " ".join(capsys.readouterr().out.split())
    assert run(["lots", station, "--reason", "Just so."]) == 2
    assert "--reason says why a lot is made active past a stop, got no --activate NAME" in capsys.readouterr().err


def test_more_than_32_images_are_refused(calibrated_line, station, capsys):
    images = sorted((calibrated_line / "normals").iterdir()) * 6
    assert run(["calibrate", station, *map(str, images), "--lot", "L2"]) == 2
    assert "at most 32 calibration images" in capsys.readouterr().err


def test_what_was_said_is_not_said_again():
    said = "Only 8 parts count."
    checks = [
        Check("threshold", 0, "look", said),
        Check("threshold", 0, "look", f"{said} a.png alone puts it there."),
        Check("outline", 0, "ok", "The part covers 79% of the image."),
        Check("alignment", 0, "ok", "The parts have 91% of the alignment."),
        Check("alignment", 0, "look", "The parts have only 80% of the alignment."),
    ]
    first, second, outline, aligned, off = [row["what it means"] for row in check_rows(checks, [said])]
    assert "19 parts are enough" in first
    assert said not in first
    assert second == f"{first} a.png alone puts it there."
    assert outline == "The part covers 79% of the image.", "the check's own sentence, where there is no plainer one"
    assert aligned == "The parts lie where the training parts lay."
    assert off.endswith("compare fixture and camera. The parts have only 80% of the alignment.")
