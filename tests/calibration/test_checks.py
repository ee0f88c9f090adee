"""The checks before a lot is trusted, on features made so that the answer is known."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from sparcal.calibration.check import Check, worst
from sparcal.calibration.checks import (
    check_alignment,
    check_alone,
    check_duplicates,
    check_energy,
    check_expected,
    check_help,
    check_number,
    check_odd,
    check_self_test,
    check_shift,
    check_threshold,
    stands_alone,
)
from sparcal.calibration.choice import Choice, Trial
from sparcal.calibration.detection_curve import detection_curve
from sparcal.calibration.part_statistics import displacement, left_out_residuals
from sparcal.calibration.self_test import SelfTest
from sparcal.calibration.thresholds import by_hand, find_threshold
from sparcal.types import Features
from tests.support.drawn_parts import TRAIN, D, H, W, maps, parts, random


def names(n):
    return [f"part-{i}.png" for i in range(n)]


def test_the_gravest_verdict_counts():
    ok, look, stop = (Check("a", 0, verdict, "") for verdict in ("ok", "look", "stop"))
    assert worst([ok, ok]) == "ok"
    assert worst([ok, look]) == "look"
    assert worst([stop, look, ok]) == "stop"
    assert worst([]) == "ok"


def test_a_check_survives_json():
    check = Check("odd one out", 2.5, "stop", "x looks defective.", ("x",))
    assert Check.from_json(check.to_json()) == check


def test_few_images_are_worth_a_look():
    assert check_number(8).verdict == "ok"
    assert check_number(3).verdict == "look"


def test_parts_in_place_are_aligned():
    check = check_alignment(parts(6, 1), TRAIN, names(6))
    assert check.verdict == "ok"
    assert check.number == pytest.approx(1, abs=0.02)
    assert check.images == ()


def test_a_part_that_lies_upside_down_is_named():
    lot = parts(6, 1).levels[0].clone()
    lot[4] = lot[4].flip(0).flip(1)
    check = check_alignment(Features((lot,)), TRAIN, names(6))
    assert (check.verdict, check.images) == ("stop", ("part-4.png",))
    assert "do not lie like the training parts: part-4.png" in check.sentence


@pytest.mark.parametrize(
    ("down", "right", "words"),
    [(1, 0, "1 cells down"), (0, -2, "2 cells left"), (-1, 1, "1 cells up and 1 cells right")],
)
def test_parts_that_lie_off_are_told_by_how_much(down, right, words):
    moved = parts(6, 1).map(lambda x: torch.roll(x, (down, right), (1, 2)))
    assert displacement(moved, TRAIN) == (down, right)
    check = check_alignment(moved, TRAIN, names(6))
    assert check.verdict != "ok" or check.number < 0.99
    assert words in check.sentence


def test_duplicates_are_named_by_hash_and_by_likeness():
    lot = parts(5, 1).levels[0].clone()
    lot[3] = lot[1] + 0.01 * random(H, W, D, seed=5)  # the same part, saved again
    different = check_duplicates(parts(5, 1), TRAIN, names(5), list("abcde"), ["z"])
    assert (different.verdict, different.number) == ("ok", 0)
    likeness = check_duplicates(Features((lot,)), TRAIN, names(5), list("abcde"), [])
    assert (likeness.verdict, likeness.images) == ("stop", ("part-3.png", "part-1.png"))
    hashes = check_duplicates(parts(5, 1), TRAIN, names(5), list("abcda"), [])
    assert "part-4.png and part-0.png show the same part" in hashes.sentence
    trained = check_duplicates(Features((torch.cat([lot[:2], TRAIN.levels[0][:1]]),)), TRAIN, names(3), list("abc"), [])
    assert trained.sentence == "part-2.png is a training image: give different parts of the lot."


# The odd one out, and the one that stands alone


def test_the_odd_one_is_found_and_only_it():
    lot = maps(8, 2)
    lot[2] *= 5  # another light raises all cells
    lot[6, 3, 4] *= 60  # a defect raises a few
    check = check_odd(lot, 0.1, names(8))
    assert (check.verdict, check.images) == ("stop", ("part-6.png",))
    assert "part-6.png looks defective" in check.sentence
    assert check.sentence.endswith("(limit 5.0): look at it, and calibrate without it.")
    lot[6, 3, 4] /= 60
    assert check_odd(lot, 0.1, names(8)).verdict == "ok"
    assert check_alone(lot, 0.1, names(8)).images == ("part-2.png",)


def test_a_smashed_part_is_found_as_well_as_a_hairline():
    lot = maps(8, 2)
    lot[3, :, :5] *= 4  # four tenths of the part: nine tenths of its own cells no longer tell
    assert check_odd(lot, 0.1, names(8)).images == ("part-3.png",)
    lot = maps(8, 2)
    lot[5, 8, 8] *= 4
    assert check_odd(lot, 0.1, names(8)).images == ("part-5.png",)


def test_a_part_smashed_over_two_thirds_is_named_and_not_taken_for_a_light():
    lot = maps(8, 2)
    lot[3, : 2 * H // 3] *= 6
    assert check_odd(lot, 0.1, names(8)).images == ("part-3.png",)
    assert check_alone(lot, 0.1, names(8)).verdict == "ok"


def test_two_odd_ones_are_both_named():
    lot = maps(8, 2)
    lot[1, 0, 0], lot[5, 8, 8] = 5, 8  # each widens the spread that the other is measured in
    check = check_odd(lot, 0.1, names(8))
    assert check.images == ("part-1.png", "part-5.png")
    assert "look defective" in check.sentence


def test_where_parts_differ_more_oddity_is_asked_for():
    lot = maps(8, 2)
    lot[4, 2, 2] = 1.8 * lot[4].max()
    assert check_odd(lot, 0.05, names(8)).images == ("part-4.png",)
    conspicuous = check_odd(lot, 0.18, names(8))
    assert (conspicuous.verdict, conspicuous.images) == ("look", ("part-4.png",))
    assert conspicuous.sentence.startswith("part-4.png is conspicuous, ")
    assert conspicuous.sentence.endswith("look for a defect, or show another part under the same light or fixture.")
    assert check_odd(lot, 0.5, names(8)).verdict == "ok"


def test_good_parts_are_hardly_ever_accused():
    accused = [check_odd(maps(8, seed), 0.05, names(8)).verdict == "stop" for seed in range(200)]
    assert sum(accused) <= 10  # one lot in 20


def test_too_few_to_leave_one_out_is_worth_a_look():
    check = check_odd(None, 1.0, names(2))
    assert (check.verdict, check.sentence) == ("look", "2 images are too few to leave one out: show at least 3.")


def test_a_part_under_a_light_of_its_own_is_named_and_what_to_do():
    lot = maps(8, 3)
    assert check_alone(lot, 0.1, names(8)).verdict == "ok"
    lot[7] *= 2
    check = check_alone(lot, 0.1, names(8))
    assert (check.verdict, check.images) == ("look", ("part-7.png",))
    assert check.sentence.startswith("part-7.png is the only one of its kind: ")
    assert "show another part under the same light" in check.sentence
    assert "about 1 in 8 of the parts to come are of a kind that nobody has shown" in check.sentence
    uncounted = "Defects planted on such a part are not counted"
    assert uncounted in check.sentence
    assert stands_alone(lot, 0.1) == [False] * 7 + [True]
    lot[1] *= 4
    assert "part-1.png, part-7.png are each the only one of their kind" in check_alone(lot, 0.1, names(8)).sentence
    few = check_alone(lot[[1, 7, 2, 3]], 0.1, names(4))
    assert len(few.images) == 2
    assert uncounted not in few.sentence, "with two in company every defect counts"


@pytest.mark.parametrize("lot", [None, maps(3, 1)])
def test_too_few_to_tell_which_stand_alone(lot):
    check = check_alone(lot, 0.1, names(3))
    assert (check.verdict, check.sentence) == ("ok", "3 images are too few to tell which stand alone.")


# The lot as a whole


def test_no_shift_and_a_shift():
    same, shifted = check_shift(parts(8, 1), TRAIN)
    assert not shifted
    assert same.sentence.startswith("The lot looks like the training parts")
    assert same.number == pytest.approx(1, abs=0.2)
    moved, shifted = check_shift(parts(8, 1).map(lambda x: x + 1.0), TRAIN)
    assert shifted
    assert moved.sentence.startswith("The lot looks different from the training parts")
    lights = parts(8, 1).map(lambda x: x + torch.arange(8).view(8, 1, 1, 1) * 0.3)
    check, shifted = check_shift(lights, TRAIN)
    assert shifted
    assert check.number > 2


def test_energy_says_what_is_removed_and_where():
    common = random(1, H, W, D, seed=9)
    lot = parts(6, 1, 0.02).map(lambda x: x + random(6, 1, 1, 1, seed=8) * common)  # all deviate along one direction
    check = check_energy(left_out_residuals(lot, TRAIN), "sparc")
    assert check.verdict == "ok"
    assert check.number > 0.9
    assert f"of {H} and column" in check.sentence
    assert check_energy(None, "sparc").sentence == "Nothing is removed from what the camera sees."
    assert check_energy(left_out_residuals(lot, TRAIN), "identity").number == 0


def test_parts_that_do_not_agree_in_how_they_deviate_are_worth_a_look():
    lot = parts(6, 1)
    statistics = left_out_residuals(lot, TRAIN)
    own = float(statistics.removed.mean()) + 0.1
    check = check_energy(replace(statistics, own_removed=own), "sparc")
    assert check.verdict == "look"
    assert check.sentence.startswith("The parts do not agree in how they differ from each other: of the differences ")


def test_the_threshold_check_asks_for_a_look_where_samples_do_not_reach():
    own, few = random(200, seed=1).exp().numpy(), random(8, seed=2).exp().numpy()
    many = random(64, seed=3).exp().numpy()
    assert check_threshold(find_threshold(own, many, 0.05), many.tolist(), names(64)).verdict == "ok"
    assert check_threshold(find_threshold(own, 50 * few, 0.05), (50 * few).tolist(), names(8)).verdict == "look"
    assert check_threshold(by_hand(1.0), [], names(8)).verdict == "look"


def test_a_part_that_alone_puts_the_threshold_up_is_named():
    own = random(200, seed=1).exp().numpy()
    scores = [100.0, 101, 102, 250, 103, 104, 105, 106]
    check = check_threshold(find_threshold(own, scores, 0.05), scores, names(8))
    assert (check.verdict, check.images) == ("look", ("part-3.png",))
    assert "part-3.png alone puts it there, 2.4 times the median of the normals" in check.sentence
    alone = [number == 3 for number in range(8)]  # the check `alone` names it already
    assert check_threshold(find_threshold(own, scores, 0.05, alone=alone), scores, names(8), alone=alone).images == ()
    scores[3] = 107
    assert check_threshold(find_threshold(own, scores, 0.05), scores, names(8)).images == ()


# What planted defects say


def choice(correction, helps, stands_out=0.9):
    trials = (Trial("identity", {}, 0.6, 3.0), Trial(correction, {}, stands_out, 0.0))
    return Choice(correction, {}, helps, "a sentence", trials)


def test_the_benefit_is_what_the_choice_says():
    check = check_help(choice("sparc", True))
    assert (check.name, check.number, check.verdict, check.sentence) == ("benefit", 0.9, "ok", "a sentence")
    assert check_help(choice("sparc", False)).verdict == "ok"  # no more are found, but they stand out more clearly
    assert check_help(replace(choice("sparc", False), trials=())).verdict == "look"  # asked for, and does not help
    assert check_help(choice("identity", None)).verdict == "ok"
    assert check_help(Choice("sparc", {}, None, "unchecked", ())).verdict == "look"
    assert check_expected(choice("sparc", True)) == replace(check, name="expected benefit")


@pytest.mark.parametrize(("found", "verdict"), [(64, "ok"), (52, "ok"), (51, "look"), (0, "look")])
def test_a_lot_that_misses_many_planted_defects_is_worth_a_look(found, verdict):
    tested = SelfTest(64, found, found, 3, {}, (), (0, 0), detection_curve([], [], floor=0.05), "as found", 0, ())
    check = check_self_test(tested)
    assert (check.name, check.number, check.verdict, check.sentence) == ("self-test", found / 64, verdict, "as found")


def test_without_a_self_test_nothing_is_known():
    check = check_self_test(None)
    assert (check.verdict, check.sentence) == (
        "look",
        "Too few parts to leave one out: what the lot would find is not known.",
    )
