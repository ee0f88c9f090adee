"""`sparcal compare`: two lots, or a lot and the station's own reference, side by side."""

from __future__ import annotations

import json

from sparcal.cli import run


def test_a_lot_beside_the_stations_own_reference(calibrated_line, capsys):
    assert run(["compare", str(calibrated_line / "station"), "L1"]) == 0
    table = capsys.readouterr().out
    assert "L1" in table
    assert "the station's own reference" in table
    assert "planted defects found" in table
    assert "station's own " in table
    assert "identity" not in table


def test_for_machines(calibrated_line, capsys):
    assert run(["compare", str(calibrated_line / "station"), "L1", "L1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["first"], told["second"]) == ("L1", "L1")
    facts = {row["what"]: (row["first"], row["second"]) for row in told["compare"]}
    assert facts["images in both"] == (6, 6)
    assert run(["compare", str(calibrated_line / "station"), "L1", "L1"]) == 0
    assert "L1 (2)" in capsys.readouterr().out


def test_a_lot_that_is_not_there(calibrated_line, capsys):
    for names in (["nope"], ["L1", "nope"]):
        assert run(["compare", str(calibrated_line / "station"), *names]) == 2
        assert "has no lot 'nope'; it has L1." in capsys.readouterr().err


def test_checks_are_told_in_words(calibrated_line, capsys):
    assert run(["compare", str(calibrated_line / "station"), "L1", "L1"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "Number of parts" in line]
    assert [line.split("│")[2].strip() for line in lines] in (["ok"], ["look"])
    assert run(["compare", str(calibrated_line / "station"), "L1", "L1", "--json"]) == 0
    facts = {row["what"]: row["first"] for row in json.loads(capsys.readouterr().out)["compare"]}
    assert facts["check: number"] == 6
    assert facts["verdict: number"] in ("ok", "look")


def test_what_was_planted_is_compared_too(calibrated_line, capsys):
    assert run(["compare", str(calibrated_line / "station"), "L1", "L1", "--json"]) == 0
    facts = {row["what"]: row["first"] for row in json.loads(capsys.readouterr().out)["compare"]}
    assert " of " in facts["planted defects found"]
    assert " of " in facts["faint planted defects found"]
    assert "pixels from which nine in ten are found" in facts
