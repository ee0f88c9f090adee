"""What every command prints with: JSON without NaN, tables, refusals that end with exit code 2."""

from __future__ import annotations

import io
import json
import sys
import time

import pytest

from sparcal.cli.console import CallError, print_json, print_table, progress, wrong_call
from sparcal.errors import ArtifactError, BusyError, DataError, FullDiskError


def test_json_has_no_nan(capsys):
    print_json({"a": [1.0, float("nan"), float("inf")], "b": ({"c": "ü"},), 3: None})
    assert json.loads(capsys.readouterr().out) == {"a": [1.0, None, None], "b": [{"c": "ü"}], "3": None}


def test_tables_shorten_numbers_and_leave_gaps(capsys):
    print_table([{"name": "a", "x": 1.23456}, {"name": "b", "x": float("nan")}, {"name": None}], title="T")
    out = capsys.readouterr().out
    assert "1.235" in out
    assert "-" in out
    assert "1.23456" not in out


def test_numbers_of_a_table_may_share_their_decimals(capsys):
    print_table([{"name": "a", "x": 86.0}, {"name": "b", "x": 12.345}, {"name": "c", "x": 7}], decimals=1)
    words = capsys.readouterr().out.split()
    assert {"86.0", "12.3", "7"} < set(words)


def test_names_are_text_in_titles_of_columns_too(capsys):
    print_table([{"[/]": 1, "\x1b[31m": 2}], title="[/]")
    out = capsys.readouterr().out
    assert out.count("[/]") == 2
    assert r"\x1b[31m" in out


def test_tables_are_for_people(capsys):
    moment = "2026-11-18T03:05:17.864+00:00"
    print_table([{"lot": "L1", "active": True, "created": moment, "operator": None, "checks": "stop"}])
    out = capsys.readouterr().out
    assert "2026-11-18 03:05 " in out
    assert "yes" in out
    assert "operator" not in out, "a column that is empty"
    assert "\x1b" not in out, "no colours where nobody looks"


def test_refusals_of_what_was_asked_for_are_wrong_calls():
    with pytest.raises(CallError, match="a sentence"), wrong_call():
        raise DataError("a sentence")


@pytest.mark.parametrize("kind", [ArtifactError, BusyError, FullDiskError])
def test_what_is_nobodys_wrong_call_stays_what_it_is(kind):
    with pytest.raises(kind, match="a sentence"), wrong_call():
        raise kind("a sentence")


def test_progress_is_silent_without_a_terminal(capsys):
    with progress("Working") as report:
        report(1, 2)
    assert capsys.readouterr() == ("", "")


def test_a_bar_covers_every_stage(monkeypatch):
    """On a terminal: the second stage begins when the count does."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with progress("Encoding [/] \x1b[31m", "Fitting and testing") as report:
        time.sleep(0.3)  # the bar is drawn ten times a second
        for done in range(5):
            report(done + 1, 5)
        for done in range(5):
            report(done, 4)
    said = screen.getvalue()
    assert r"Encoding [/] \x1b[31m" in said
    assert "/?" not in said, "a count whose end is not known yet"
    assert "each" not in said, "a rate of few steps, which are not alike"
    assert "5 of 5" in said
    assert "Fitting and testing" in said
    assert "4 of 4" in said


class Terminal(io.StringIO):
    """Somebody looks at it."""

    def isatty(self):
        return True
