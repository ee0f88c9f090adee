"""Which correction is taken: figures against scikit-learn and by hand, the simpler within one standard error, the words."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from sparcal.calibration.choice import Choice, Trial
from sparcal.calibration.held_out import HeldOut, PartScores
from sparcal.calibration.selection import (
    CandidateCorrection,
    asked_for,
    candidates,
    choose,
    described,
    lower_ranks,
    placement,
    standard_errors,
)
from sparcal.corrections import CORRECTIONS


def scores(values):
    image = torch.tensor(values, dtype=torch.float32)
    return PartScores(image, image, image[:, None, None])


def held(planted, good):
    return HeldOut(scores(good), scores(planted))


few = st.lists(st.integers(0, 6).map(float), min_size=1, max_size=12)


@given(planted=few, good=few)
def test_placements_average_to_the_area_under_the_roc_curve(planted, good):
    labels = [1] * len(planted) + [0] * len(good)
    expected = roc_auc_score(labels, [*planted, *good])
    assert placement(torch.tensor(planted), torch.tensor(good)).mean() == pytest.approx(expected)


def test_a_placement_is_the_share_of_good_parts_below():
    got = placement(torch.tensor([0.5, 2.0, 2.5, 9.0]), torch.tensor([1.0, 2.0, 3.0]))
    assert got.tolist() == pytest.approx([0, 0.5, 2 / 3, 1])


def test_standard_errors_are_of_the_paired_difference():
    rng = np.random.default_rng(0)
    best, other = rng.random(40), rng.random(40) - 0.1
    gaps = [b - o for b, o in zip(best, other, strict=True)]
    mean = sum(gaps) / 40
    variance = sum((gap - mean) ** 2 for gap in gaps) / 39
    assert standard_errors(best, other) == pytest.approx(mean / (variance / 40) ** 0.5)
    assert standard_errors(best, best) == 0


def test_a_difference_without_any_spread():
    low, high = np.zeros(5), np.ones(5)
    assert standard_errors(high, low) == float("inf")
    assert standard_errors(low, high) == 0
    assert standard_errors(np.array([0.3]), np.array([0.2])) == float("inf")


def test_the_candidate_under_which_defects_stand_out_best_is_taken():
    good = [1.0, 2.0, 3.0, 4.0]
    tried = [
        (CandidateCorrection("identity"), held([0.5] * 10, good)),
        (CandidateCorrection("sparc"), held([1.5, 2.5] * 5, good)),
        (CandidateCorrection("sparc-recentred", {"rank": 2}), held([5.0] * 10, good)),
    ]
    taken, trials = choose(tried)
    assert (taken.name, taken.settings) == ("sparc-recentred", {"rank": 2})
    assert [one.stands_out for one in trials] == pytest.approx([0.0, 0.375, 1.0])
    assert [one.correction for one in trials] == ["identity", "sparc", "sparc-recentred"]
    assert trials[2].behind == 0
    assert trials[0].behind == float("inf")


def test_within_one_standard_error_the_simpler_one_is_taken():
    good, rng = [float(i) for i in range(20)], np.random.default_rng(1)
    plain = rng.uniform(0, 20, 60)
    hardly = plain + rng.normal(0, 6, 60)  # another order, about the same area
    clearly = plain + 2
    tried = [
        (CandidateCorrection("identity"), held(plain.tolist(), good)),
        (CandidateCorrection("sparc"), held(hardly.tolist(), good)),
    ]
    taken, trials = choose(tried)
    assert taken.name == "identity"
    assert all(one.behind <= 1 for one in trials)
    taken, trials = choose([tried[0], (CandidateCorrection("sparc"), held(clearly.tolist(), good))])
    assert taken.name == "sparc"
    assert trials[0].behind > 1


def test_ties_go_to_the_simplest():
    same = held([5.0, 6.0, 2.5], [1.0, 2.0, 3.0])
    taken, trials = choose([(CandidateCorrection(name), same) for name in ("identity", "normals", "sparc")])
    assert taken.name == "identity"
    assert [one.behind for one in trials] == [0, 0, 0]


def test_candidates_come_simplest_first_with_lower_ranks_where_there_are_some():
    def names(k):
        return [(one.name, dict(one.settings)) for one in candidates(k)]

    plain = [(name, {}) for name in ("identity", "normals", "mean-only", "sparc")]
    assert names(3) == [*plain, ("sparc-recentred", {})]
    assert names(8) == [*plain, ("sparc-recentred", {}), ("sparc-recentred", {"rank": 3})]
    ranks = [("sparc-recentred", {"rank": rank}) for rank in (7, 15)]
    assert names(32) == [*plain, ("sparc-recentred", {}), *ranks]
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
            "Of 64 planted defects the station's own reference would find 9, sparc 61: calibrated.",
        ),
        (
            Choice("sparc", {}, None, "", TRIALS), 61, 61, False, False,
            "Of 64 planted defects the station's own reference would find 61, sparc 61: no more are found, but they stand "
            "out more clearly.",
        ),
        (
            Choice("identity", {}, None, "", TRIALS), 60, 60, False, None,
            "Of 64 planted defects the station's own reference finds 60, and no correction makes them stand out more "
            "clearly: the station keeps its reference.",
        ),
        (
            asked_for("sparc", {"rank": 2}), 61, 30, True, False,
            "Of 64 planted defects the station's own reference would find 61, sparc with rank 2 30: it does not help. It "
            "was asked for by name.",
        ),
        (
            asked_for("identity"), 60, 60, True, None,
            "Of 64 planted defects the station's own reference finds 60. It was asked for by name.",
        ),
        (
            Choice("identity", {}, None, "", ()), 60, 60, False, None,
            "Of 64 planted defects the station's own reference finds 60, the lot looks like the training parts, and 2 images "
            "are too few to compare corrections: the station keeps its reference.",
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


def test_a_correction_that_somebody_named():
    choice = asked_for("sparc", {"rank": 4})
    assert (choice.correction, choice.settings, choice.helps, choice.trials) == ("sparc", {"rank": 4}, None, ())
    assert choice.sentence == "sparc with rank 4 was asked for."
