"""What every command prints with: JSON without NaN, tables, refusals that end with exit code 2."""

from __future__ import annotations

import json

import pytest

from sparcal.cli.console import CallError, print_json, print_table, progress, wrong_call
from sparcal.errors import DataError


def test_json_has_no_nan(capsys):
    print_json({"a": [1.0, float("nan"), float("inf")], "b": ({"c": "ü"},), 3: None})
    assert json.loads(capsys.readouterr().out) == {"a": [1.0, None, None], "b": [{"c": "ü"}], "3": None}


def test_tables_shorten_numbers_and_leave_gaps(capsys):
    print_table([{"name": "a", "x": 1.23456}, {"name": "b", "x": float("nan")}, {"name": None}], title="T")
    out = capsys.readouterr().out
    assert "1.235" in out
    assert "-" in out
    assert "1.23456" not in out


def test_refusals_of_what_was_asked_for_are_wrong_calls():
    with pytest.raises(CallError, match="a sentence"), wrong_call():
        raise DataError("a sentence")


def test_progress_is_silent_without_a_terminal(capsys):
    with progress("Working") as report:
        report(1, 2)
    assert capsys.readouterr() == ("", "")
