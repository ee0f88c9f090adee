"""Lines that are only added to: what was changed or taken out shows, what a kill cut short does not disturb."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparcal.files.chained_lines import add_line, read_lines


def three(path):
    for number in range(3):
        add_line(path, {"event": "e", "number": number, "who": "Åda"})
    return path


def test_lines_come_back_in_order_and_whole(tmp_path):
    kept = read_lines(three(tmp_path / "history"))
    assert [entry["number"] for entry in kept.entries] == [0, 1, 2]
    assert kept.entries[0] == {"event": "e", "number": 0, "who": "Åda"}
    assert kept.damaged == ()
    assert read_lines(tmp_path / "none").entries == []


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 7))
def test_a_flipped_bit_anywhere_shows(tmp_path_factory, place, bit):
    path = three(tmp_path_factory.mktemp("lines") / "history")
    written = bytearray(path.read_bytes())
    written[place % (len(written) - 1)] ^= 1 << bit  # all but the last line break, whose loss looks like a kill's
    path.write_bytes(written)
    kept = read_lines(path)
    same = [json.loads(line) for line in written.split(b"\n")[:-1]] if not kept.damaged else []
    assert kept.damaged or [entry["number"] for entry in same] == [0, 1, 2]
    assert kept.damaged != ()


def test_a_line_that_was_taken_out_shows(tmp_path):
    path = three(tmp_path / "history")
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(lines[0] + lines[2])
    assert read_lines(path).damaged == (2,)


def test_a_line_that_a_kill_cut_short_is_passed_over(tmp_path):
    path = three(tmp_path / "history")
    path.write_bytes(path.read_bytes()[:-9])
    assert [entry["number"] for entry in read_lines(path).entries] == [0, 1]
    assert read_lines(path).damaged == ()
    add_line(path, {"number": 3})
    assert [entry["number"] for entry in read_lines(path).entries] == [0, 1, 3]
    assert read_lines(path).damaged == ()


def test_lines_of_version_0_1_have_no_digest_and_stand_before_the_others(tmp_path):
    path = tmp_path / "history"
    path.write_text('{"number": 0}\n')
    add_line(path, {"number": 1})
    assert read_lines(path).damaged == ()
    with path.open("a") as stream:
        stream.write('{"number": 2}\n')
    assert read_lines(path).damaged == (3,)


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xfe\x00", b"[]", b"3\n"])
def test_strange_files_are_read_without_a_traceback(tmp_path, content):
    (tmp_path / "history").write_bytes(content)
    assert read_lines(tmp_path / "history").entries == []
