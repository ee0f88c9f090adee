"""What a setting may be: each rule lets good values pass, numpy's among them, and refuses the others in a sentence."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparcal import settings
from sparcal.errors import DataError

GOOD = [
    (settings.one_of, "cell", {"choices": ("none", "cell")}),
    (settings.one_of, None, {"choices": ("none", "cell"), "optional": True}),
    (settings.whole_number, 3, {"least": 3, "most": 3}),
    (settings.whole_number, np.int64(3), {"least": 1}),
    (settings.whole_number, np.uint8(3), {}),
    (settings.whole_number, None, {"optional": True}),
    (settings.seed_number, 2**63 - 1, {}),
    (settings.finite_number, 0.5, {"above": 0, "most": 1}),
    (settings.finite_number, 2, {"least": 2}),
    (settings.finite_number, np.float32(0.5), {}),
    (settings.finite_number, np.int16(4), {}),
    (settings.share, 1, {}),
    (settings.share, np.float64(0.01), {}),
    (settings.switch, False, {}),
    (settings.text, "", {}),
    (settings.texts, ("a", "b"), {}),
    (settings.whole_numbers, (1, np.int32(2)), {"least": 1}),
    (settings.whole_numbers, (), {"some": False}),
    (settings.finite_numbers, (1, 0.5, np.float32(2)), {"count": 3, "above": 0}),
    (settings.instance_of, Path(), {"kind": Path}),
    (settings.mapping, {"a": 1}, {}),
]

BAD = [
    (settings.one_of, "cells", {"choices": ("none", "cell")}, "It must be one of none, cell, got 'cells'."),
    (settings.one_of, True, {"choices": ("none", "cell")}, "It must be one of none, cell, got True."),
    (settings.one_of, None, {"choices": ("none",)}, "It must be one of none, got None."),
    (settings.whole_number, True, {}, "It must be a whole number, got True."),
    (settings.whole_number, np.bool_(True), {}, "It must be a whole number, got a bool."),
    (settings.whole_number, 1.0, {}, "It must be a whole number, got 1.0."),
    (settings.whole_number, 0, {"least": 1, "most": 9}, "It must be a whole number of at least 1 and at most 9, got 0."),
    (settings.whole_number, 12, {"most": 9}, "It must be a whole number of at most 9, got 12."),
    (
        settings.whole_number,
        "3",
        {"optional": True, "hint": "leave it out"},
        "It must be a whole number or None, got '3': leave it out.",
    ),
    (settings.seed_number, -1, {}, f"It must be a whole number of at least 0 and at most {2**63 - 1}, got -1."),
    (settings.finite_number, math.nan, {}, "It must be a finite number, got nan."),
    (settings.finite_number, np.float32(math.inf), {}, "It must be a finite number, got inf."),
    (settings.finite_number, False, {}, "It must be a finite number, got False."),
    (settings.finite_number, 10**400, {}, "It must be a finite number, got an int."),
    (settings.finite_number, 0.0, {"above": 0}, "It must be a finite number above 0, got 0.0."),
    (settings.finite_number, 1j, {}, "It must be a finite number, got a complex."),
    (settings.share, 0, {}, "It must be in (0, 1], got 0."),
    (settings.share, 1.01, {}, "It must be in (0, 1], got 1.01."),
    (settings.switch, 1, {}, "It must be True or False, got 1."),
    (settings.text, b"a", {}, "It must be a text, got b'a'."),
    (settings.texts, "ab", {}, "It must be a tuple of texts, got 'ab'."),
    (settings.whole_numbers, [1], {}, "It must be a tuple of whole numbers, got [1]."),
    (settings.whole_numbers, (), {}, "It must be a tuple of whole numbers, got ()."),
    (settings.whole_numbers, (1, True), {"least": 1}, "It must be a tuple of whole numbers of at least 1, got (1, True)."),
    (settings.whole_numbers, (1,), {"count": 2}, "It must be a tuple of 2 whole numbers, got (1,)."),
    (settings.finite_numbers, (1, 2), {"count": 3}, "It must be a tuple of 3 finite numbers, got (1, 2)."),
    (settings.finite_numbers, (0.0,), {"count": 1, "above": 0}, "It must be a tuple of 1 finite numbers above 0, got (0.0,)."),
    (settings.instance_of, "x", {"kind": (Path, bytes)}, "It must be a Path or a bytes, got 'x'."),
    (settings.mapping, {1: 2}, {}, "It must be a mapping from texts, got {1: 2}."),
    (settings.text, list(range(100)), {}, "It must be a text, got a list."),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "value", "options"), GOOD)
def test_good_values_pass(rule, value, options):
    rule(value, "It", **options)


@pytest.mark.parametrize(("rule", "value", "options", "sentence"), BAD)
def test_others_are_refused_in_one_sentence(rule, value, options, sentence):
    with pytest.raises(DataError) as refused:
        rule(value, "It", **options)
    assert str(refused.value) == sentence


@given(st.integers() | st.floats() | st.booleans() | st.text() | st.none(), st.integers(-9, 9), st.integers(-9, 9))
def test_a_whole_number_passes_exactly_within_its_bounds(value, least, most):
    good = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
    try:
        settings.whole_number(value, "It", least=least, most=most)
    except DataError:
        assert not good
    else:
        assert good


@pytest.mark.parametrize(("name", "words"), [("Encoded", "an Encoded"), ("Tensor", "a Tensor")])
def test_types_have_their_article(name, words):
    assert settings.with_article(name) == words
