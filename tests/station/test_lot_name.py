"""Lot names: any printable text has a folder of its own, and what is not printable is refused."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sparcal.errors import DataError
from sparcal.station.lot_name import LONGEST, clean_name, folder_name

printable = st.text(
    st.characters(exclude_categories=("Cc", "Cf", "Cs", "Zl", "Zp", "Cn", "Co")), min_size=1, max_size=40
).filter(lambda text: text.strip() not in ("", ".", ".."))


@given(printable)
def test_a_folder_is_one_plain_name_that_every_file_system_takes(name):
    folder = folder_name(name)
    assert folder.isascii()
    assert not set(folder) & set('/\\:*?"<>|\0')
    assert not folder.startswith(".")
    assert len(folder) <= 255


@given(printable, printable)
def test_two_names_have_two_folders(first, second):
    assume(clean_name(first) != clean_name(second))
    assert folder_name(first) != folder_name(second)


def test_one_name_in_two_spellings_is_one_lot():
    composed, decomposed = "Größe", unicodedata.normalize("NFD", "Größe")
    assert composed != decomposed
    assert clean_name(f"  {decomposed} ") == composed
    assert folder_name(composed) == folder_name(decomposed)


def test_long_names_keep_their_beginning_and_differ_by_a_hash():
    first, second = folder_name("ü" * 150 + "a"), folder_name("ü" * 150 + "b")
    assert first != second
    assert first[:LONGEST] == second[:LONGEST]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "A lot needs a name of at least one character, other than . and .., got '': name the lot."),
        ("..", "A lot needs a name of at least one character, other than . and .., got '..': name the lot."),
        ("a\tb", "A lot's name must be printable, got 'a\\tb' with U+0009: leave that character out."),
        ("x" * 201, "A lot's name may have 200 characters, got 201: shorten it."),
    ],
)
def test_names_that_are_none(name, message):
    with pytest.raises(DataError) as caught:
        clean_name(name)
    assert str(caught.value) == message
