"""Variants as texts: what they mean, what changes the base, and what is refused."""

from __future__ import annotations

import pytest

from sparcal.bench.plan.variant import Variant
from sparcal.errors import DataError


def test_the_empty_text_is_the_main_protocol():
    assert Variant.parse("") == Variant()
    assert Variant.parse("source=deployment+contaminated=0+geometry=centre-crop") == Variant()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rank=3", Variant(rank=3)),
        ("on=test", Variant(on="test")),
        ("contaminated=2+scene-disjoint", Variant(contaminated=2, scene_disjoint=True)),
        ("full-normal", Variant(full_normal=True)),
        ("calibration-only", Variant(source_weight=0)),
        ("source-mixed", Variant(source_weight=16)),
        ("setting=mode:zero_shot", Variant(settings=(("mode", "zero_shot"),))),
        (
            "setting=neighbours:1,8,9+setting=rscin:false+setting=interval:0.5",
            Variant(settings=(("neighbours", (1, 8, 9)), ("rscin", False), ("interval", 0.5))),
        ),
        ("backbone=mae_b+geometry=full-frame", Variant(backbone="mae_b", geometry="full-frame")),
    ],
)
def test_words_and_their_meaning(text, expected):
    assert Variant.parse(text) == expected


def test_only_words_that_change_the_base_are_in_the_setting():
    assert Variant.parse("rank=3+on=test+source=train+full-normal+source-mixed").setting == ""
    both = Variant.parse("scene-disjoint+contaminated=1+geometry=full-frame+backbone=b")
    assert both.setting == "backbone=b+geometry=full-frame+contaminated=1+scene-disjoint"
    assert Variant.parse(both.setting) == both
    chosen = Variant.parse("setting=neighbours:1,8,9+setting=rscin:false")
    assert Variant.parse(chosen.setting) == chosen


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ranks=3", "unknown variant 'ranks=3' in 'ranks=3'; choose from rank, on"),
        ("rank=0", "The variant rank takes a number from 1, got '0' in 'rank=0': write rank=3."),
        ("on=left", "The variant on takes both or reference or test, got 'left'"),
        ("contaminated=x", "The variant contaminated takes a number from 0, got 'x'"),
        ("scene-disjoint=1", "The variant scene-disjoint takes no value, got '1'"),
        ("backbone=", "The variant backbone takes a name, got ''"),
    ],
)
def test_wrong_words_are_refused(text, message):
    with pytest.raises(DataError, match=message):
        Variant.parse(text)
