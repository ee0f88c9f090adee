"""Names are text: nothing unseen reaches a terminal, nothing is run by a spreadsheet, and every name comes back."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparcal.files.names import disarmed, json_text, visible

# Any text, half surrogate pairs included, as bytes that are no UTF-8 give them.
NAMES = st.text(st.characters(codec=None, exclude_categories=()), max_size=20)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("[cam1]_001.png", "[cam1]_001.png"),
        ("Käse 🧀 检查.png", "Käse 🧀 检查.png"),
        ("👩‍🔧.png", "👩‍🔧.png"),
        ("a\x1b[31mred", r"a\x1b[31mred"),
        ("a\x9b31mred", r"a\u009b31mred"),
        ("two\nlines\t", r"two\x0alines\x09"),
        ("turned\u202egnp.exe", r"turned\u202egnp.exe"),
        (os.fsdecode(b"\xff\xfe.png"), r"\xff\xfe.png"),
        ("C:\\parts\\1.png", "C:\\parts\\1.png"),
        (r"a\x1b", r"a\\x1b"),
        ("a\\\x1b", r"a\\\x1b"),
        ("\U000e0001", r"\U000e0001"),
    ],
)
def test_everything_can_be_seen(name, shown):
    assert visible(name) == shown


@given(NAMES)
def test_what_is_shown_is_printable_and_can_be_written(name):
    shown = visible(name)
    assert shown.replace("\u200d", "").isprintable()
    shown.encode()


@given(NAMES, NAMES)
@example("\x1b", r"\x1b")
@example("\\\x1b", r"\\x1b")
@example("\\\\x1b", "\\\x1b")
def test_different_names_look_different(one, other):
    assert (visible(one) == visible(other)) == (one == other)


@given(st.recursive(NAMES | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(NAMES, inner)))
@example("\x7f\x9b\u202e\udcff\U000e0001")
def test_json_gives_every_name_back_and_holds_nothing_unseen(value):
    text = json_text(value)
    assert json.loads(text) == value
    assert text.isprintable()
    text.encode()


def test_json_is_readable_where_it_can_be():
    assert json_text({"lot": "Käse"}) == '{"lot": "Käse"}'


@pytest.mark.parametrize(
    ("text", "cell"),
    [("=1+1", "'=1+1"), ("+x", "'+x"), ("-x", "'-x"), ("@x", "'@x"), ("\tx", "'\tx"), ("a=1", "a=1"), ("", "")],
)
def test_a_spreadsheet_runs_nothing(text, cell):
    assert disarmed(text) == cell
