"""Checks in plain words: names of parts where they are needed, and the check's own sentence where nothing is plainer."""

from __future__ import annotations

from sparcal.calibration.check_words import check_title, plain_sentence


def test_a_check_that_names_parts_names_them_plainly():
    said = plain_sentence("odd one out", "stop", "measured", ["a.png", "b.png"])
    assert said == "Probably defective: a.png, b.png. Look at them, and calibrate without them."
    assert plain_sentence("odd one out", "stop", "measured", []) == "measured"
    assert plain_sentence("alignment", "stop", "measured", ["a.png"]).endswith("or take it out.")
    many = [f"{i}.png" for i in range(9)]
    assert ": 0.png, 1.png, 2.png, 3.png and 5 more. Put" in plain_sentence("alignment", "stop", "measured", many)


def test_an_unchanged_lot_is_said_to_be_one():
    assert plain_sentence("shift", "ok", "The lot looks like the training parts: ...", []).startswith("No, ")
    assert plain_sentence("shift", "ok", "The lot looks different from the training parts: ...", []).startswith("Yes, ")


def test_what_has_no_plain_words_speaks_for_itself():
    assert plain_sentence("of a plug-in", "ok", "measured", []) == "measured"
    assert check_title("of a plug-in") == "Of a plug-in"
    assert check_title("alignment") == "Position"
