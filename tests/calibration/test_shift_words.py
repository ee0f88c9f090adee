"""Words for a change: each stands for something that was measured and could be seen."""

from __future__ import annotations

import numpy as np
import pytest

from sparcal.calibration.shift_words import WORTH_A_WORD, whole_image, words_for


def parts(count=40, seed=0, **shift):
    rng = np.random.default_rng(seed)
    return [
        {name: shift.get(name.replace(" ", "_"), 0.0) + 0.004 * rng.standard_normal() for name in WORTH_A_WORD}
        for _ in range(count)
    ]


def words(**shift):
    return words_for(parts(), parts(6, 1, **shift), (384, 768))


def test_nothing_is_said_where_nothing_changed():
    assert words() == ()
    assert words_for([], parts(3), (1, 1)) == ()


@pytest.mark.parametrize(
    ("shift", "said"),
    [
        ({"brightness": np.log(0.8)}, ("darker (-20%)",)),
        ({"brightness": np.log(1.3), "warmth": 0.05}, ("brighter (+30%)", "warmer")),
        ({"warmth": -0.1, "tint": 0.05}, ("cooler", "greener")),
        ({"sharpness": -0.5}, ("blurrier",)),
        ({"sharpness": 0.5, "contrast": -0.2}, ("grainier", "lower in contrast (-18%)")),
        ({"from_the_left": 0.2}, ("lit more from the right",)),
        ({"right": -1.5, "down": 1.0}, ("moved by about 12 pixels to the left and 4 pixels down",)),
    ],
)
def test_each_word_has_its_measure(shift, said):
    assert words(**shift) == said


def test_the_clearest_three_are_told():
    found = words(brightness=0.5, warmth=0.3, tint=0.1, sharpness=0.2, contrast=0.1)
    assert found == ("brighter (+65%)", "warmer", "greener")


def test_a_change_within_the_spread_of_earlier_parts_is_chance():
    rng = np.random.default_rng(2)
    before = [{name: float(rng.normal(0, 0.2)) for name in WORTH_A_WORD} for _ in range(60)]
    after = [{**dict.fromkeys(WORTH_A_WORD, 0.0), "brightness": 0.1} for _ in range(4)]
    assert words_for(before, after, (1, 1)) == ()


def test_the_clause():
    assert whole_image(("darker", "warmer")) == "the whole image is darker and warmer, not a local defect"
    assert whole_image(("a", "b", "c")) == "the whole image is a, b and c, not a local defect"
    assert "not one place of it" in whole_image(())
