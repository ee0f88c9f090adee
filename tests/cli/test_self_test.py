"""`sparcal test`: counts for people and machines, and the exit code that tells a shift to stop."""

from __future__ import annotations

import json

import pytest

from sparcal.cli import run
from sparcal.cli.self_test import BAR, bar


def test_the_same_seed_repeats_the_test_on_record(calibrated_line, capsys):
    station = str(calibrated_line / "station")
    assert run(["show", station, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)["self_test"]
    assert run(["test", station, "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["lot"], again["planted"], again["worse"]) == ("L1", 64, False)
    assert again["record"] == {"planted": record["planted"], "found": record["found"]}
    assert again["found"] == record["found"]
    assert again["by_kind"] == record["by_kind"]


def test_people_read_kinds_sizes_and_the_comparison(calibrated_line, capsys):
    assert run(["test", str(calibrated_line / "station"), "--lot", "L1", "--n", "14", "--seed", "3"]) == 0
    said = capsys.readouterr()
    assert "of 14 planted defects are found" in said.out
    assert "on record" in said.out
    for word in ("scratch", "dent", "size in pixels", "░"):
        assert word in said.out


def test_a_threshold_that_misses_what_was_found_ends_with_1(calibrated_line, capsys):
    station = str(calibrated_line / "station")
    assert run(["show", station, "--threshold", "1e9"]) == 0
    capsys.readouterr()
    try:
        assert run(["test", station, "--n", "32"]) == 1
        assert "0 of 32 planted defects are found" in (said := capsys.readouterr().out)
        assert "Fewer are found than the" in said
        assert "calibrate again" in said
    finally:
        assert run(["show", station, "--threshold", "calibrated"]) == 0


def test_a_station_without_a_lot_is_tested_too(calibrated_line, capsys):
    station = str(calibrated_line / "station")
    assert run(["lots", station, "--own"]) == 0
    capsys.readouterr()
    try:
        assert run(["test", station, "--n", "14", "--json"]) == 0
        tested = json.loads(capsys.readouterr().out)
        assert tested["lot"] is None
        assert tested["planted"] == 14
    finally:
        assert run(["lots", station, "--activate", "L1"]) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--n", "0"], "'--n': Input should be greater than or equal to 1"),
        (["--seed", "-1"], "'--seed': Input should be greater than or equal to 0"),
        (["--lot", "L9"], "has no lot 'L9'"),
    ],
)
def test_a_wrong_call_is_refused_in_one_sentence(calibrated_line, words, message, capsys):
    assert run(["test", str(calibrated_line / "station"), *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("share", "full"), [(0.0, 0), (0.5, BAR // 2), (1.0, BAR)])
def test_a_bar_is_as_long_as_its_share(share, full):
    assert bar(share).count("█") == full
    assert bar(share).count("░") == BAR - full
