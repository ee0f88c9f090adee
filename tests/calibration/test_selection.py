"""Which correction is taken: figures against scikit-learn and by hand, experience within one standard error, the words."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from sparcal.calibration.choice import Choice, Trial
from sparcal.calibration.held_out import HeldOut, PartScores
from sparcal.calibration.selection import (
    CandidateCorrection,
    above,
    areas_without,
    asked_for,
    candidates,
    choose,
    described,
    lower_ranks,
    standard_errors,
)
from sparcal.corrections import CORRECTIONS


def scores(values):
    image = torch.tensor(values, dtype=torch.float32)
    return PartScores(image, image, image[:, None, None])


def held(planted, good):
    return HeldOut(scores(good), scores(planted))


few = st.lists(st.integers(0, 6).map(float), min_size=1, max_size=12)


@settings(deadline=None)
@given(planted=few, good=few)
def test_wins_average_to_the_area_under_the_roc_curve(planted, good):
    labels = [1] * len(planted) + [0] * len(good)
    expected = roc_auc_score(labels, [*planted, *good])
    assert above(torch.tensor(planted), torch.tensor(good)).mean() == pytest.approx(expected)


def test_a_defect_wins_against_good_parts_below_it_and_half_against_equals():
    got = above(torch.tensor([0.5, 2.0, 9.0]), torch.tensor([1.0, 2.0, 3.0]))
    assert got.tolist() == [[0, 0, 0], [1, 0.5, 0], [1, 1, 1]]


@settings(deadline=None)
@given(st.integers(0, 1000))
def test_areas_without_a_part_are_those_of_the_other_parts_alone(seed):
    rng = np.random.default_rng(seed)
    k = 4
    part = rng.permutation([0, 1, 2, 3, *rng.integers(0, k, 8)])
    planted, good = rng.integers(0, 6, len(part)) / 1.0, rng.integers(0, 6, k) / 1.0
    for j, got in enumerate(areas_without(above(torch.tensor(planted), torch.tensor(good)), part)):
        defects, parts = planted[part != j], np.delete(good, j)
        labels = [1] * len(defects) + [0] * len(parts)
        assert got == pytest.approx(roc_auc_score(labels, [*defects, *parts]))


def test_where_all_defects_lie_on_one_part_nothing_is_known_without_it():
    assert areas_without(np.ones((3, 2)), [1, 1, 1]).tolist() == [1.0, 0.5]


def test_standard_errors_are_the_jackknifes():
    without = np.array([0.1, 0.3, 0.2, 0.25])
    mean = sum(without) / 4
    error = (3 / 4 * sum((one - mean) ** 2 for one in without)) ** 0.5
    assert standard_errors(0.2, without) == pytest.approx(0.2 / error)
    assert standard_errors(-0.2, without) == standard_errors(0.0, without) == 0


def test_the_jackknife_of_a_mean_is_its_standard_error():
    """One defect and one value for each part: leaving one out is what the textbook formula sums up."""
    values = np.random.default_rng(0).random(12)
    without = np.array([np.delete(values, j).mean() for j in range(12)])
    assert standard_errors(values.mean(), without) == pytest.approx(values.mean() / (values.std(ddof=1) / 12**0.5))


def test_a_difference_without_any_spread():
    assert standard_errors(0.1, np.full(5, 0.1)) == float("inf")
    assert standard_errors(0.0, np.zeros(5)) == 0


def test_the_candidate_under_which_defects_stand_out_best_is_taken():
    good, part = [1.0, 2.0, 3.0, 4.0], [number % 4 for number in range(8)]
    tried = [
        (CandidateCorrection("sparc"), held([1.5, 2.5] * 4, good)),
        (CandidateCorrection("sparc-recentred", {"rank": 2}), held([5.0] * 8, good)),
        (CandidateCorrection("identity"), held([0.5] * 8, good)),
    ]
    taken, trials = choose(tried, part)
    assert (taken.name, taken.settings) == ("sparc-recentred", {"rank": 2})
    assert [one.stands_out for one in trials] == pytest.approx([0.375, 1.0, 0.0])
    assert [one.correction for one in trials] == ["sparc", "sparc-recentred", "identity"]
    assert trials[1].behind == 0
    assert trials[2].behind == float("inf")


def test_parts_that_tell_nothing_are_not_compared():
    """The last part is judged by what has never seen its light: high under the better candidate, and no defect on it."""
    part = [number % 3 for number in range(9)]
    tried = [
        (CandidateCorrection("sparc"), held([2.0] * 9, [1.0, 1.0, 3.0, 1.0])),
        (CandidateCorrection("normals"), held([2.0] * 9, [1.0, 1.0, 1.0, 9.0])),
    ]
    _, everybody = choose(tried, part)
    taken, compared = choose(tried, part, (0, 1, 2))
    assert [one.stands_out for one in everybody] == pytest.approx([0.75, 0.75])
    assert [one.stands_out for one in compared] == pytest.approx([2 / 3, 1.0])
    assert taken.name == "sparc", "its part 2 alone is high: one standard error tells nothing"
    shifted = [{0: 1, 1: 2, 2: 3}[one] for one in part]  # the same parts under other numbers
    moved = [(candidate, held([2.0] * 9, [5.0, *one.good.image.tolist()[:3]])) for candidate, one in tried]
    assert choose(moved, shifted, (1, 2, 3)) == (taken, compared)


def test_within_one_standard_error_experience_decides():
    good, rng = [float(i) for i in range(20)], np.random.default_rng(1)
    part = [number % 20 for number in range(60)]
    plain = rng.uniform(0, 20, 60)
    hardly = plain + rng.normal(0, 6, 60)  # another order, about the same area
    clearly = plain + 2
    tried = [
        (CandidateCorrection("sparc-recentred"), held(plain.tolist(), good)),
        (CandidateCorrection("identity"), held(hardly.tolist(), good)),
    ]
    taken, trials = choose(tried, part)
    assert taken.name == "sparc-recentred"
    assert all(one.behind <= 1 for one in trials)
    taken, trials = choose([tried[0], (CandidateCorrection("identity"), held(clearly.tolist(), good))], part)
    assert taken.name == "identity"
    assert trials[0].behind > 1


def test_a_gain_on_one_part_alone_does_not_overrule_experience():
    """All defects of one part stand out more: six images, but one part, and the part is what may differ by chance."""
    good, part = [float(i) for i in range(8)], [number % 8 for number in range(48)]
    usual = np.random.default_rng(2).uniform(0, 8, 48)
    better = np.where(np.array(part) == 3, 9.0, usual)
    tried = [
        (CandidateCorrection("sparc-recentred"), held(usual.tolist(), good)),
        (CandidateCorrection("identity"), held(better.tolist(), good)),
    ]
    taken, trials = choose(tried, part)
    assert trials[1].stands_out > trials[0].stands_out
    assert taken.name == "sparc-recentred"


def test_ties_go_to_what_serves_most_lots_best():
    same = held([5.0, 6.0, 2.5], [1.0, 2.0, 3.0])
    names = ("sparc-recentred", "normals", "identity")
    taken, trials = choose([(CandidateCorrection(name), same) for name in names], [0, 1, 2])
    assert taken.name == "sparc-recentred"
    assert [one.behind for one in trials] == [0, 0, 0]


def test_candidates_come_in_the_order_of_experience_with_lower_ranks_where_there_are_some():
    def names(k):
        return [(one.name, dict(one.settings)) for one in candidates(k)]

    plain = [(name, {}) for name in ("normals", "mean-only", "sparc", "identity")]
    assert names(3) == [("sparc-recentred", {}), *plain]
    assert names(8) == [("sparc-recentred", {}), ("sparc-recentred", {"rank": 3}), *plain]
    ranks = [("sparc-recentred", {"rank": rank}) for rank in (7, 15)]
    assert names(32) == [("sparc-recentred", {}), *ranks, *plain]
    for one in candidates(16):
        CORRECTIONS[one.name](**one.settings)


@given(st.integers(2, 32))
def test_lower_ranks_are_lower(k):
    assert all(2 <= rank < k - 1 for rank in lower_ranks(k))


def test_a_candidate_is_called_by_its_rank():
    assert CandidateCorrection("sparc").title == "sparc"
    assert CandidateCorrection("sparc-recentred", {"rank": 3}).title == "sparc-recentred with rank 3"


TRIALS = (Trial("identity", {}, 0.7, 2.0), Trial("sparc", {}, 0.9, 0.0))


@pytest.mark.parametrize(
    ("choice", "before", "after", "asked", "helps", "sentence"),
    [
        (
            Choice("sparc", {}, None, "", TRIALS), 9, 61, False, True,
            "Of 64 planted defects the station's own reference would find 9 at a threshold moved to this lot, sparc 61: calibrated.",
        ),
        (
            Choice("sparc", {}, None, "", TRIALS), 61, 61, False, False,
            "Of 64 planted defects the station's own reference would find 61 at a threshold moved to this lot, sparc 61: no "
            "more are found, but they stand out more clearly.",
        ),
        (
            Choice("sparc", {}, None, "", (Trial("sparc", {}, 0.7, 0.4), Trial("identity", {}, 0.71, 0.0))), 61, 61, False,
            False,
            "Of 64 planted defects the station's own reference would find 61 at a threshold moved to this lot, sparc 61: no "
            "clear difference, so what serves most lots best is taken.",
        ),
        (
            Choice("identity", {}, None, "", TRIALS), 60, 60, False, None,
            "Of 64 planted defects the station's own reference finds 60 at a threshold moved to this lot, and no correction "
            "makes them stand out more clearly: the station keeps its reference.",
        ),
        (
            asked_for("sparc", {"rank": 2}), 61, 30, True, False,
            "Of 64 planted defects the station's own reference would find 61 at a threshold moved to this lot, sparc with "
            "rank 2 30: it does not help. It was asked for by name.",
        ),
        (
            asked_for("identity"), 60, 60, True, None,
            "Of 64 planted defects the station's own reference finds 60 at a threshold moved to this lot. It was asked for by name.",
        ),
        (
            Choice("identity", {}, None, "", ()), 60, 60, False, None,
            "Of 64 planted defects the station's own reference finds 60 at a threshold moved to this lot, the lot looks like "
            "the training parts, and 2 images are too few to compare corrections: the station keeps its reference.",
        ),
        (
            asked_for("sparc"), None, None, True, None,
            "sparc is taken unchecked, because 2 images are too few to leave one out: show at least 3. It was asked for by "
            "name.",
        ),
        (
            Choice("sparc-recentred", {}, None, "", ()), None, None, False, None,
            "sparc-recentred is taken unchecked, because 2 images are too few to leave one out: show at least 3.",
        ),
    ],
)  # fmt: skip
def test_the_choice_in_words(choice, before, after, asked, helps, sentence):
    said = described(choice, planted=64, before=before, after=after, k=2, asked=asked)
    assert (said.helps, said.sentence) == (helps, sentence)
    assert (said.correction, said.settings, said.trials) == (choice.correction, choice.settings, choice.trials)


def test_what_the_station_would_reject_as_it_is_stands_first():
    choice = Choice("sparc", {}, None, "", TRIALS)
    said = described(choice, planted=64, before=41, after=63, k=8, rejected=8).sentence
    plain = described(choice, planted=64, before=41, after=63, k=8).sentence
    assert said == f"At its own threshold the station would reject 8 of 8 good parts of this lot. {plain}"


def test_a_correction_that_somebody_named():
    choice = asked_for("sparc", {"rank": 4})
    assert (choice.correction, choice.settings, choice.helps, choice.trials) == ("sparc", {"rank": 4}, None, ())
    assert choice.sentence == "sparc with rank 4 was asked for."
