"""The checks before a lot is trusted, on features made so that the answer is known."""

from __future__ import annotations

import pytest
import torch

from sparcal.calibration.checks import (
    Check,
    check_alignment,
    check_duplicates,
    check_energy,
    check_help,
    check_number,
    check_odd,
    check_shift,
    check_threshold,
    worst,
)
from sparcal.calibration.part_statistics import (
    alignment,
    displacement,
    left_out_residuals,
    part_distances,
    prominence,
    spread_and_offset,
)
from sparcal.calibration.selection import Choice, Trial, choose, judge, trial
from sparcal.calibration.thresholds import by_hand, find_threshold
from sparcal.sparc import SPARC
from sparcal.types import Features

H, W, D = 9, 12, 10


def random(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def parts(n, seed, spread=0.3):
    """Parts of one drawing: a smooth pattern, and a little noise of their own."""
    rows, columns = torch.meshgrid(torch.arange(H) / H, torch.arange(W) / W, indexing="ij")
    waves = torch.stack([torch.sin(6 * rows + i) * torch.cos(5 * columns - i) for i in range(D)], dim=-1)
    return Features((2 * waves + spread * random(n, H, W, D, seed=seed),))


def names(n):
    return [f"part-{i}.png" for i in range(n)]


TRAIN = parts(30, 0)


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


def test_alignment_is_the_mean_cosine_of_patterns():
    lot = parts(3, 1)
    mean = TRAIN.levels[0].mean(0)
    mean = mean - mean.mean((0, 1))
    for image, got in zip(lot.levels[0], alignment(lot, TRAIN), strict=True):
        x = image - image.mean((0, 1))
        cosines = [x[i, j] @ mean[i, j] / (x[i, j].norm() * mean[i, j].norm()) for i in range(H) for j in range(W)]
        assert float(got) == pytest.approx(float(torch.stack(cosines).mean()), abs=1e-5)


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


def test_distances_are_in_units_of_two_training_parts():
    distances = part_distances(TRAIN, TRAIN, TRAIN)
    off = distances[~torch.eye(30, dtype=torch.bool)]
    assert float(off.mean()) == pytest.approx(1, rel=1e-4)
    assert float(distances.diagonal().max()) < 1e-9


def test_the_odd_one_is_found_and_only_it():
    own, lot = random(20, H, W, seed=1).square() + 1, random(8, H, W, seed=2).square() + 1
    lot[2] *= 5  # another light raises all cells
    lot[6, 3, 4] *= 60  # a defect raises a few
    check = check_odd([(lot, own), (lot.sqrt(), own.sqrt())], names(8), spread=1.0)
    assert (check.verdict, check.images) == ("stop", ("part-6.png",))
    assert "part-6.png looks defective" in check.sentence
    lot[6, 3, 4] /= 60
    assert check_odd([(lot, own)], names(8), spread=1.0).verdict == "ok"


def test_two_odd_ones_are_both_named():
    own, lot = random(20, H, W, seed=1).square() + 1, random(8, H, W, seed=2).square() + 1
    lot[1, 0, 0], lot[5, 8, 8] = 500, 800
    assert check_odd([(lot, own)], names(8), spread=1.0).images == ("part-1.png", "part-5.png")


def test_where_conditions_are_mixed_more_oddity_is_asked_for():
    own, lot = random(20, H, W, seed=1).square() + 1, random(8, H, W, seed=2).square() + 1
    typical = float(prominence(own).mean())
    lot[4, 2, 2] = float(lot[4].flatten().quantile(0.9)) * torch.tensor(2.1 * typical).exp()
    assert check_odd([(lot, own)], names(8), spread=1.2).images == ("part-4.png",)
    mixed = check_odd([(lot, own)], names(8), spread=3.0)
    assert (mixed.verdict, mixed.images) == ("look", ("part-4.png",))
    assert mixed.sentence.startswith("part-4.png is conspicuous, the worst stands out 2.0 times as much")
    lot[4, 2, 2] = lot[4].median()
    assert check_odd([(lot, own)], names(8), spread=1.2).verdict == "ok"
    faint = check_odd([(lot, own)], names(8), spread=3.0)
    assert faint.verdict == "ok"
    assert faint.sentence.endswith("the parts differ much among each other, which can hide a faint defect.")


def test_too_few_to_leave_one_out_is_worth_a_look():
    check = check_odd([], names(2), spread=1.0)
    assert (check.verdict, check.sentence) == ("look", "2 images are too few to leave one out: show at least 3.")


def test_prominence_follows_its_definition():
    maps = random(4, H, W, seed=3).square()
    for one, got in zip(maps, prominence(maps), strict=True):
        assert float(got) == pytest.approx(float((one.max() / one.flatten().quantile(0.9)).log()), abs=1e-5)
    assert torch.isfinite(prominence(torch.zeros(2, H, W))).all()


def test_no_shift_and_a_shift():
    same = check_shift(parts(8, 1), TRAIN)
    assert same.sentence.startswith("There is no shift to remove")
    assert same.number == pytest.approx(1, abs=0.2)
    moved = parts(8, 1).map(lambda x: x + 1.0)
    assert check_shift(moved, TRAIN).sentence.startswith("There is a shift")
    lights = parts(8, 1).map(lambda x: x + torch.arange(8).view(8, 1, 1, 1) * 0.3)
    assert check_shift(lights, TRAIN).number > 2


def test_spread_and_offset_follow_their_definition():
    lot, train = parts(4, 1, 0.5).levels[0].double(), TRAIN.levels[0].double()
    own = sum((x - train.mean(0)).square().sum(-1).mean() for x in train) / 29
    spread = sum((x - lot.mean(0)).square().sum(-1).mean() for x in lot) / 3
    offset = (lot.mean(0) - train.mean(0)).square().sum(-1).mean()
    assert spread_and_offset(Features((lot.float(),)), TRAIN) == pytest.approx(
        (float(spread / own), float(offset / own))
    )


def test_left_out_residuals_are_what_sparc_leaves():
    lot = parts(5, 1)
    found = left_out_residuals(lot, TRAIN)
    for j in range(5):
        others = [i for i in range(5) if i != j]
        sparc = SPARC().fit(lot[others])
        left = (sparc.apply(lot[j]).levels[0][0] - sparc.mean_[0]).square().sum(-1)
        torch.testing.assert_close(found.residual[j], left, rtol=1e-4, atol=1e-5)
    assert found.removed.shape == (H, W)
    assert 0 <= found.own_removed <= 1
    assert (found.removed <= 1 + 1e-6).all()


def test_energy_says_what_is_removed_and_where():
    common = random(1, H, W, D, seed=9)
    lot = parts(6, 1, 0.02).map(lambda x: x + random(6, 1, 1, 1, seed=8) * common)  # all deviate along one direction
    check = check_energy(left_out_residuals(lot, TRAIN), "sparc")
    assert check.verdict == "ok"
    assert check.number > 0.9
    assert f"of {H}, column" in check.sentence
    assert check_energy(None, "sparc").sentence == "Nothing is removed from the features."
    assert check_energy(left_out_residuals(lot, TRAIN), "identity").number == 0


def test_the_threshold_check_asks_for_a_look_where_samples_do_not_reach():
    own, few = random(200, seed=1).exp().numpy(), random(8, seed=2).exp().numpy()
    assert check_threshold(find_threshold(own, few, 0.05), few.tolist(), names(8)).verdict == "ok"
    assert check_threshold(find_threshold(own, 50 * few, 0.05), (50 * few).tolist(), names(8)).verdict == "look"
    assert check_threshold(by_hand(1.0), [], names(8)).verdict == "look"


def test_a_part_that_alone_puts_the_threshold_up_is_named():
    own = random(200, seed=1).exp().numpy()
    scores = [100.0, 101, 102, 250, 103, 104, 105, 106]
    check = check_threshold(find_threshold(own, scores, 0.05), scores, names(8))
    assert (check.verdict, check.images) == ("look", ("part-3.png",))
    assert "part-3.png alone puts it there, 2.4 times the median of the normals" in check.sentence
    scores[3] = 107
    assert check_threshold(find_threshold(own, scores, 0.05), scores, names(8)).images == ()


# Which correction is taken


def lifted(correction, *lifts, chance=1e-4):
    return Trial(correction, sum(lifts) / len(lifts), chance, lifts)


def test_no_shift_keeps_the_stations_own_reference():
    choice = choose(lifted("identity", 0.1, -0.2, chance=0.6), [lifted("sparc", 0.0, 0.0)], 2)
    assert (choice.correction, choice.helps) == ("identity", False)
    assert choice.sentence.startswith("There is nothing to remove")
    assert check_help(choice, "identity").verdict == "ok"


def test_the_candidate_that_brings_parts_closest_is_taken():
    base = lifted("identity", 9.0, 8.0, 10.0)
    choice = choose(base, [lifted("sparc", 5.0, 5.0, 6.0), lifted("normals", 2.0, 3.0, 2.5)], 3)
    assert (choice.correction, choice.helps) == ("normals", True)
    assert "9.0 spreads above its own parts with the station's own reference" in choice.sentence
    assert "2.5 spreads above its own parts with normals (3 of 3 come closer)" in choice.sentence
    assert check_help(choice, "normals").verdict == "ok"


def test_what_does_not_help_is_not_taken_unless_asked_for():
    base, worse = lifted("identity", 2.0, 2.0, 2.0), lifted("sparc", 4.0, 4.0, 4.0)
    choice = choose(base, [worse], 3)
    assert (choice.correction, choice.helps) == ("identity", False)
    assert choice.sentence.startswith("Calibration does not help")
    assert check_help(choice, "identity").verdict == "look"
    asked = judge(base, worse, asked=True)
    assert (asked.correction, asked.helps) == ("sparc", False)
    assert asked.sentence.endswith("sparc was asked for.")


def test_two_images_cannot_be_checked():
    choice = choose(lifted("identity", 5.0, 6.0), [], 2)
    assert (choice.correction, choice.helps) == ("sparc-recentred", None)
    assert "2 images are too few to leave one out: show at least 3" in choice.sentence
    assert check_help(choice, "sparc-recentred").verdict == "look"


def test_a_lift_is_in_standard_deviations_of_log_scores():
    own, lot = random(50, seed=1).exp(), 3 * random(4, seed=2).exp()
    expected = (lot.double().log() - own.double().log().mean()) / own.double().log().std(correction=0)
    got = trial("sparc", own, lot)
    assert got.lifts == pytest.approx(expected.tolist(), rel=1e-5)
    assert got.lift == pytest.approx(float(expected.mean()), rel=1e-5)
    assert isinstance(choose(got, [], 4), Choice)
