"""`sparcal score --out`: the report tells what the lot would find, and has the planted defects beside it."""

from __future__ import annotations

import csv
import json
import re
import shutil
from html import unescape

from sparcal.cli import run


def score(line, out, *words):
    return run(["score", str(line / "station"), str(line / "lot"), "--out", str(out), "--maps", "none", *words])


def test_the_report_has_the_planted_defects(calibrated_line, tmp_path, capsys):
    out = tmp_path / "out"
    assert score(calibrated_line, out) == 0
    said = capsys.readouterr().out
    assert "Lot L1" in said
    assert "good parts, finds" in said
    page = (out / "index.html").read_text()
    assert "<a href='self-test.html'>" in page
    assert "What it would find" in page
    assert "good parts, finds" in page
    assert (out / "self-test.html").read_text().count("<figure") == 96


def test_many_rejects_are_told_with_what_may_have_changed(calibrated_line, capsys):
    station = str(calibrated_line / "station")
    many = "the lamp, the camera or the fixture has changed: calibrate"
    assert run(["score", station, str(calibrated_line / "lot")]) == 0
    assert many not in capsys.readouterr().out
    assert run(["show", station, "--threshold", "0"]) == 0
    capsys.readouterr()
    try:
        assert run(["score", station, str(calibrated_line / "lot")]) == 0
        assert f"If the parts are good, {many} a new lot." in capsys.readouterr().out
        one = sorted((calibrated_line / "lot").iterdir())[0]
        assert run(["score", station, str(one)]) == 0
        assert many not in capsys.readouterr().out, "one bad part says nothing about the light"
    finally:
        assert run(["show", station, "--threshold", "calibrated"]) == 0


def test_a_part_that_fails_by_little_is_pointed_out(calibrated_line, tmp_path, capsys):
    station = str(calibrated_line / "station")
    assert run(["score", station, str(calibrated_line / "lot"), "--json"]) == 0
    scores = sorted(row["score"] for row in json.loads(capsys.readouterr().out))
    assert run(["show", station, "--threshold", str(0.97 * scores[-1])]) == 0
    little = sum(score > 0.97 * scores[-1] for score in scores)
    capsys.readouterr()
    try:
        assert score(calibrated_line, tmp_path / "out") == 0
    finally:
        assert run(["show", station, "--threshold", "calibrated"]) == 0
    said = f"{little} part{'s fail' if little > 1 else ' fails'} by less than 5% of the threshold: look at"
    assert said in capsys.readouterr().out
    page = (tmp_path / "out" / "index.html").read_text()
    assert said in page
    assert page.count("<rect class='fail'") == 1, "bars above the threshold are those of parts that fail"
    assert "a part that passes can have one" in page


def test_a_page_that_was_changed_is_left_out_and_judging_goes_on(calibrated_line, tmp_path):
    page = next((calibrated_line / "station" / "lots").glob("*/self-test.html"))
    before = page.read_bytes()
    page.chmod(0o644)
    page.write_text("something else")
    try:
        assert score(calibrated_line, tmp_path / "out") == 0
    finally:
        page.write_bytes(before)
        page.chmod(0o444)
    assert not (tmp_path / "out" / "self-test.html").exists()
    assert "<a href='self-test.html'>" not in (tmp_path / "out" / "index.html").read_text()


def test_a_station_without_a_lot_has_a_page_too(calibrated_line, tmp_path, capsys):
    station = str(calibrated_line / "station")
    assert run(["lots", station, "--own"]) == 0
    try:
        assert score(calibrated_line, tmp_path / "out") == 0
    finally:
        assert run(["lots", station, "--activate", "L1"]) == 0
    assert "not calibrated to any lot" in capsys.readouterr().out
    assert "The station's own reference:" in unescape((tmp_path / "out" / "self-test.html").read_text())


def test_images_of_an_earlier_call_are_counted_by_page_table_and_message_alike(calibrated_line, tmp_path, capsys):
    images = sorted((calibrated_line / "lot").iterdir())
    call = ["score", str(calibrated_line / "station"), "--out", str(tmp_path / "out"), "--maps", "none"]
    assert run([*call, *map(str, images[:3])]) == 0
    assert "earlier calls" not in capsys.readouterr().out
    (tmp_path / "broken.png").write_bytes(b"no image")
    assert run([*call, str(images[3]), str(tmp_path / "broken.png")]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "of 2 fail, 1 could not be judged." in said
    counted = re.search(
        r"also holds 3 images of earlier calls: page and scores.csv count them too, (\d) of 5 fail, 1 could", said
    )
    rows = list(csv.DictReader((tmp_path / "out" / "scores.csv").read_text().splitlines()))
    assert len(rows) == 5
    assert sum(row["verdict"] == "fail" for row in rows) == int(counted[1])
    page = (tmp_path / "out" / "index.html").read_text()
    assert f'<div class="fail"><b>{counted[1]}</b>fail</div>' in page
    assert '<div class="error"><b>1</b>not judged</div>' in page


def test_a_lot_that_a_check_stopped_is_named_where_the_own_reference_judges_in_its_place(
    calibrated_line, tmp_path, capsys
):
    station = str(shutil.copytree(calibrated_line / "station", tmp_path / "station"))
    assert run(["lots", station, "--own"]) == 0
    part = str(sorted((calibrated_line / "lot").iterdir())[0])
    assert run(["score", station, part]) == 0
    assert "does not judge" not in capsys.readouterr().err
    normals = sorted((calibrated_line / "normals").iterdir())
    shutil.copy(normals[0], tmp_path / "again.png")
    assert run(["calibrate", station, *map(str, normals[:3]), str(tmp_path / "again.png"), "--lot", "L2"]) == 1
    capsys.readouterr()
    assert run(["score", station, part]) == 0
    assert "Lot L2 was calibrated and does not judge, because a check says stop" in capsys.readouterr().err
    assert run(["score", station, part, "--lot", "L1"]) == 0
    assert "does not judge" not in capsys.readouterr().err
