"""The self-test: counts against a plain loop, Fisher's chance by enumeration, and the words."""

from __future__ import annotations

from dataclasses import replace
from math import comb

import pytest
import torch

from sparcal.calibration.chance_of_finding import ChanceOfFinding
from sparcal.calibration.held_out import HeldOut, PartScores
from sparcal.calibration.planted_kinds import KINDS
from sparcal.calibration.self_test import SelfTest, at_threshold, chance_of_fewer, count_found, self_test
from tests.support.random_grids import grids, planted_on

PARTS = planted_on(grids(4, 2), 40)


def held(seed=0):
    random = torch.Generator().manual_seed(seed)
    image, peak = (torch.rand(len(PARTS), generator=random) for _ in range(2))
    good = PartScores(torch.zeros(4), torch.zeros(4), torch.zeros(4, 1, 1))
    return HeldOut(good, PartScores(image, peak, image[:, None, None]))


def judged(**changed):
    return self_test(PARTS, held(), **{"thresholds": (0.4, 0.7), "floor": 0.05, "seed": 5, "before": 7, **changed})


def test_counts_are_those_of_a_plain_loop():
    result, scores = judged(), held().planted
    plain = [i for i, one in enumerate(PARTS.defects) if one.plain]
    faint = [i for i, one in enumerate(PARTS.defects) if not one.plain]
    assert (result.planted, result.faint[1], result.seed, result.before) == (40, 20, 5, 7)
    assert result.found == sum(bool(scores.image[i] > 0.4) for i in plain) == count_found(PARTS, held(), 0.4)
    assert result.marked == sum(bool(scores.peak[i] > 0.7) for i in plain)
    assert result.faint[0] == sum(bool(scores.image[i] > 0.4) for i in faint)
    for kind in KINDS:
        mine = [i for i in plain if PARTS.defects[i].kind == kind]
        assert result.by_kind[kind] == (sum(bool(scores.image[i] > 0.4) for i in mine), len(mine))
    for number, one in enumerate(result.defects):
        drawn = PARTS.defects[number]
        assert (one.kind, one.size, one.contrast, one.seed, one.plain) == (
            drawn.kind, drawn.size, drawn.contrast, drawn.seed, drawn.plain,
        )  # fmt: skip
        assert (one.part, one.pixels, one.found) == (PARTS.part[number], PARTS.pixels[number], one.score > 0.4)


def test_every_defect_is_in_one_row_of_sizes():
    result = judged()
    assert sum(row["planted"] for row in result.by_size) == len(PARTS)
    assert sum(row["found"] for row in result.by_size) == result.found + result.faint[0]
    for row in result.by_size:
        inside = [one for one in result.defects if row["from"] <= one.pixels < row["to"]]
        assert (row["planted"], row["found"]) == (len(inside), sum(one.found for one in inside))


def test_a_score_at_the_threshold_is_not_found():
    score = float(held().planted.image.max())
    assert judged(thresholds=(score, 2.0)).found == 0
    assert judged(thresholds=(score, 2.0)).marked == 0


def test_the_words():
    result = judged()
    assert result.sentence.startswith(
        f"{result.found} of 40 planted defects are found; the station's own reference would find 7 at a threshold "
        f"moved to this lot. Of 20 faint ones {result.faint[0]} are found. "
    )
    assert result.sentence.endswith(result.curve.sentence)
    assert judged(before=None).sentence.startswith(f"{result.found} of 40 planted defects are found. Of 20")
    assert result.a90 == result.curve.a90


def test_at_another_threshold_the_same_defects_are_counted_anew():
    first, limit = judged(), float(held().planted.image.median())
    moved, expected = at_threshold(first, limit, floor=0.05), judged(thresholds=(limit, 2.0), before=None)
    assert [one.found for one in moved.defects] == [one.found for one in expected.defects]
    assert (moved.found, moved.by_kind, moved.by_size, moved.faint, moved.curve, moved.sentence) == (
        expected.found, expected.by_kind, expected.by_size, expected.faint, expected.curve, expected.sentence,
    )  # fmt: skip
    assert moved.marked == first.marked


def test_defects_of_one_size_fill_one_row():
    same = replace(PARTS, pixels=(9.0,) * len(PARTS))
    result = self_test(same, held(), thresholds=(0.4, 0.7), floor=0.05, seed=0)
    assert [row["planted"] for row in result.by_size] == [len(PARTS)]


def test_a_self_test_survives_json():
    result = judged()
    written = result.to_json()
    assert SelfTest.from_json(written) == result
    assert {"planted", "found", "before", "by_kind", "by_size", "a90"} <= set(written)


@pytest.mark.parametrize(
    ("found", "planted", "earlier", "earlier_planted"),
    [(3, 10, 8, 10), (60, 64, 61, 64), (10, 64, 61, 64), (0, 5, 0, 5), (5, 5, 5, 5), (4, 10, 50, 64)],
)
def test_the_chance_of_fewer_is_the_share_of_all_ways_to_draw_them(found, planted, earlier, earlier_planted):
    """Of all found ones, as few or fewer fall among the new ones (Fisher, one-sided)."""
    hits, total = found + earlier, planted + earlier_planted
    ways = sum(
        comb(planted, i) * comb(earlier_planted, hits - i) for i in range(found + 1) if hits - i <= earlier_planted
    )
    assert chance_of_fewer(found, planted, earlier, earlier_planted) == pytest.approx(ways / comb(total, hits))


def test_the_chance_at_a_size_is_the_curves_and_with_a_contrast_that_of_both():
    result = judged()
    assert result.chance_at(20.0) == result.curve.at(20.0)
    sizes, contrasts, found = zip(*((one.pixels, one.contrast, one.found) for one in result.defects), strict=True)
    assert result.chance_at(20.0, 30.0) == ChanceOfFinding(sizes, contrasts, found).at(20.0, 30.0)
    everything = judged(thresholds=(-1.0, 0.7))
    assert everything.curve.sizes == ()
    assert everything.chance_at(20.0) == 1.0, "without a curve the share of all that were planted"
