"""Thresholds from good parts: ranks and limits against their definitions, agreement and rates by simulation."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from sparcal.calibration.log_scores import prediction_limit
from sparcal.calibration.standing_apart import LIGHT, OWN_AT_MOST, stand_apart
from sparcal.calibration.thresholds import (
    EQUIVALENT,
    SIGNIFICANT,
    SUPPORTED_FROM,
    Threshold,
    by_hand,
    ceiling,
    chance_of_difference,
    conformal_rank,
    find_threshold,
    histogram,
    power_of_agreement,
)
from sparcal.errors import DataError

RATES = (0.01, 0.05, 0.10)


def gamma(n, seed, scale=1.0):
    return scale * np.random.default_rng(seed).gamma(30, 1 / 30, n)


@given(st.integers(1, 400), st.floats(0.001, 0.999))
def test_the_rank_is_the_smallest_that_keeps_the_rate(n, rate):
    # A new part exceeds the r-th smallest of n exchangeable ones with probability at most (n + 1 - r) / (n + 1).
    enough = [r for r in range(1, n + 1) if (n + 1 - r) / (n + 1) <= rate + 1e-9]
    assert conformal_rank(n, rate) == (enough[0] if enough else None)


@pytest.mark.parametrize(
    ("n", "rate", "rank"), [(9, 0.1, 9), (8, 0.1, None), (99, 0.01, 99), (19, 0.05, 19), (8, 0.12, 8)]
)
def test_ranks_that_people_know(n, rate, rank):
    assert conformal_rank(n, rate) == rank


@pytest.mark.parametrize(("n", "rank"), [(8, 8), (128, 128), (128, 123), (20, 10)])
def test_the_ceiling_is_what_19_of_20_samples_stay_below(n, rank):
    # Of uniform scores, the share above a threshold is 1 minus the threshold.
    shares = 1 - np.sort(np.random.default_rng(0).random((20_000, n)), axis=1)[:, rank - 1]
    assert np.mean(shares <= ceiling(n, rank)) == pytest.approx(0.95, abs=0.005)


def test_the_ceiling_of_the_largest_of_eight():
    assert ceiling(8, 8) == pytest.approx(1 - 0.05 ** (1 / 8))
    threshold = find_threshold(gamma(120, 1), gamma(8, 2, 2.0), 0.01)
    assert threshold.ceiling == ceiling(8, 8)
    assert "8 parts promise less: at most 11.1% on average, and at most 31% in 19 of 20 lots" in threshold.sentence


@pytest.mark.parametrize("rate", RATES)
def test_the_rate_holds_on_average_where_the_lot_is_like_the_station(rate):
    """Parts of one population: the mean rate over many stations and lots is at most the rate asked for."""
    rates = []
    for seed in range(300):
        sample = gamma(120 + 64 + 200, seed)
        threshold = find_threshold(sample[:120], sample[120:184], rate)
        rates.append((sample[184:] > threshold.value).mean())
    error = np.std(rates) / np.sqrt(len(rates))
    assert np.mean(rates) <= rate + 2 * error
    assert np.mean(rates) >= rate - 1 / 100 - 2 * error  # and not far below it


# Agreement has to be shown


@pytest.mark.parametrize(("k", "scale"), [(8, 1.0), (8, 1.3), (30, 1.02), (60, 0.97), (2, 0.5)])
def test_agreement_is_two_one_sided_welch_tests(k, scale):
    own, lot = gamma(100, 1), gamma(k, 5, scale)
    x, y = np.log(lot), np.log(own)
    limit = EQUIVALENT * y.std(ddof=1)
    below = stats.ttest_ind(x - limit, y, equal_var=False, alternative="less").pvalue
    above = stats.ttest_ind(x + limit, y, equal_var=False, alternative="greater").pvalue
    assert chance_of_difference(lot, own) == pytest.approx(max(below, above))


def test_agreement_of_scores_that_are_not_all_positive_takes_them_as_they_are():
    own, lot = gamma(60, 1), gamma(8, 2, 1.5)
    assert (np.log(own) < 0).any()
    assert chance_of_difference(np.log(lot), np.log(own)) == pytest.approx(chance_of_difference(lot, own))


def test_agreement_of_scores_without_any_spread():
    same, other = np.full(5, 2.0), np.full(5, 3.0)
    assert chance_of_difference(same, same) == 0.0
    assert chance_of_difference(other, same) == 1.0


@pytest.mark.parametrize(("lot", "own"), [(1, 50), (50, 1), (1, 1)])
def test_a_single_part_shows_no_agreement(lot, own):
    assert chance_of_difference(gamma(lot, 1), gamma(own, 2)) == 1.0


@pytest.mark.parametrize(("k", "n"), [(8, 60), (16, 60), (32, 60), (32, 200), (60, 120)])
def test_the_power_of_agreement_is_how_often_equals_show_it(k, n):
    rng = np.random.default_rng([k, n])
    trials = 1500
    shown = [
        chance_of_difference(np.exp(rng.normal(0, 0.2, k)), np.exp(rng.normal(0, 0.2, n))) < SIGNIFICANT
        for _ in range(trials)
    ]
    assert np.mean(shown) == pytest.approx(power_of_agreement(k, n), abs=0.08)


def test_eight_parts_hardly_ever_show_agreement_and_many_do():
    assert power_of_agreement(8, 120) < 0.15
    assert power_of_agreement(120, 120) > 0.9


def test_a_difference_of_half_a_deviation_is_taken_for_agreement_once_in_20_times():
    rng = np.random.default_rng(7)
    taken = [
        chance_of_difference(np.exp(rng.normal(0.5 * 0.2, 0.2, 32)), np.exp(rng.normal(0, 0.2, 120))) < SIGNIFICANT
        for _ in range(1500)
    ]
    assert np.mean(taken) <= SIGNIFICANT + 3 * np.sqrt(SIGNIFICANT / 1500) + 0.01


def test_shown_agreement_pools_and_the_rest_leaves_the_lot_to_speak():
    own = gamma(120, 1)
    pooled = find_threshold(own, gamma(100, 9), 0.05)
    assert (pooled.basis, pooled.own, pooled.lot) == ("pooled", 120, 100)
    assert pooled.agreement < SIGNIFICANT
    assert pooled.value == np.sort(np.concatenate([own, gamma(100, 9)]))[conformal_rank(220, 0.05) - 1]
    assert pooled.sentence.startswith(
        "The lot's 100 good parts score like the station's own 120, so all count together"
    )
    alone = find_threshold(own, gamma(8, 9), 0.05)  # of the same population, but eight cannot show it
    assert alone.basis == "lot with margin"
    assert alone.agreement >= SIGNIFICANT
    assert alone.sentence.startswith("The lot's own 8 good parts count")


def test_a_pool_that_does_not_reach_says_so():
    threshold = find_threshold(gamma(60, 1), gamma(60, 2), 0.001)
    assert (threshold.basis, threshold.free) == ("pooled", False)
    assert "120 good parts cannot support a false-reject rate of 0.1%, only 0.826%" in threshold.sentence
    assert threshold.value == max(gamma(60, 1).max(), gamma(60, 2).max())


def test_a_supported_rate_on_a_higher_lot_is_distribution_free():
    threshold = find_threshold(gamma(50, 1), gamma(20, 2, 3.0), 0.05)
    assert threshold.basis == "lot"
    assert threshold.free
    assert threshold.value == np.sort(gamma(20, 2, 3.0))[-1]
    assert "at most 5% of good parts are rejected" in threshold.sentence


@pytest.mark.parametrize("k", [8, 30])
def test_a_lot_that_scores_lower_never_lowers_the_bar_below_the_stations(k):
    own, lot = gamma(120, 1), gamma(k, 2, 0.85)
    threshold = find_threshold(own, lot, 0.05)
    assert threshold.basis in ("lot", "lot with margin")
    needed = np.sort(own)[conformal_rank(120, 0.05) - 1]
    near = np.minimum(own, OWN_AT_MOST * lot.max())
    alone = np.sort(lot)[29] if k == 30 else prediction_limit(near, lot, 0.05)
    assert alone < threshold.value == needed < OWN_AT_MOST * lot.max()
    assert threshold.sentence.endswith(
        f"They alone would put the threshold at {alone:.4g}; the station's own good parts raise it to {needed:.4g}."
    )


def test_an_odd_part_of_the_station_counts_as_little_above_the_highest_of_the_lot():
    own, lot = gamma(29, 1), gamma(8, 2)
    threshold = find_threshold(np.append(own, 20.0), lot, 0.05)
    assert threshold.basis == "lot with margin"
    assert threshold.value == find_threshold(np.append(own, OWN_AT_MOST * lot.max()), lot, 0.05).value < 1.5 * lot.max()


def test_where_agreement_is_shown_an_odd_part_of_the_station_counts_as_it_is():
    own, lot = np.append(gamma(119, 1), 20.0), gamma(60, 2)
    threshold = find_threshold(own, lot, 0.001)
    assert (threshold.basis, threshold.value) == ("pooled", 20.0)


def test_scores_that_are_not_positive_have_no_factor_so_the_station_is_believed():
    own, lot = gamma(60, 1) - 2, gamma(8, 2, 0.5) - 2
    assert find_threshold(own, lot, 0.05).value == np.sort(own)[conformal_rank(60, 0.05) - 1]


def test_eight_samples_say_what_they_cannot_support():
    own, lot = gamma(120, 1), gamma(8, 2, 2.0)
    threshold = find_threshold(own, lot, 0.01)
    assert (threshold.basis, threshold.free) == ("lot with margin", False)
    assert threshold.value == prediction_limit(own, lot, 0.01) > lot.max()
    assert threshold.supported == pytest.approx(1 / 9)
    assert "about 1% of good parts are rejected on average, if their scores spread like these" in threshold.sentence
    assert "Without that assumption 8 parts promise less: at most 11.1% on average" in threshold.sentence


def test_a_lone_part_above_the_threshold_counts_in_its_ceiling():
    lot = np.array([1.0, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 5.0])
    threshold = find_threshold(gamma(60, 1, 0.5), lot, 0.1, alone=[False] * 7 + [True])
    assert int((lot <= threshold.value).sum()) == 7
    assert threshold.ceiling == ceiling(8, 7)
    assert threshold.supported == pytest.approx(2 / 9)


@pytest.mark.parametrize("k", [8, SUPPORTED_FROM - 1])
@pytest.mark.parametrize("rate", [0.4, 0.2, 0.05])
def test_few_parts_keep_to_the_limit_and_to_their_own_order_statistic(k, rate):
    own, lot = gamma(60, 1), gamma(k, 2, 2.0)
    threshold = find_threshold(own, lot, rate)
    assert (threshold.basis, threshold.free) == ("lot with margin", False)
    rank = conformal_rank(k, rate)
    highest = np.sort(lot)[-1 if rank is None else rank - 1]
    assert threshold.value == max(prediction_limit(own, lot, rate), highest)


@given(st.lists(st.floats(0.1, 100), min_size=3, max_size=32), st.floats(0.001, 0.11), st.integers(0, 99))
@example([1.0] * 14 + [2.0, 2.0, 3.0, 0.25], 0.109375, 0)
def test_no_part_that_was_shown_to_be_good_is_rejected_unless_it_stands_apart(lot, rate, seed):
    own, scores = gamma(40, seed), np.array(lot)
    threshold, apart = find_threshold(own, lot, rate), stand_apart(own, scores, [], by_score=len(lot) < SUPPORTED_FROM)
    if threshold.basis == "lot with margin":
        asked = max(
            0, math.floor(rate * (len(lot) + 1)) - 1
        )  # 18 parts can keep a promise of two in 19 without the highest
        assert np.count_nonzero(scores[~apart] > threshold.value) <= asked


def test_one_part_that_the_others_do_not_explain_counts_by_half_too():
    own, company = gamma(60, 1), gamma(7, 2, 2.0)
    lot = np.append(company, 9.0)
    assert list(stand_apart(own, lot, [])) == [False] * 7 + [True]
    by_score, by_light = (find_threshold(own, lot, 0.05, alone=alone) for alone in ([], [False] * 7 + [True]))
    assert by_light.value < by_score.value < lot[-1], "a light that was shown once is nearly known"
    assert (by_score.ceiling, by_score.supported) == (by_light.ceiling, by_light.supported)


def test_enough_parts_put_no_limit_below_their_highest():
    own, lot = gamma(60, 1), np.append(gamma(SUPPORTED_FROM - 1, 2, 2.0), 20.0)
    assert prediction_limit(own, lot, 0.04) < 20
    threshold = find_threshold(own, lot, 0.04)
    assert (threshold.value, threshold.basis, threshold.free) == (20.0, "lot with margin", False)
    assert find_threshold(own, lot, 0.05).free


def test_a_part_that_stands_alone_counts_in_part_for_the_threshold_and_in_full_for_the_promise():
    own, company, lone = gamma(60, 1), gamma(7, 2, 2.0), 9.0
    lot, alone = np.append(company, lone), [False] * 7 + [True]
    counted = np.append(company, lone**LIGHT * company.max() ** (1 - LIGHT))
    threshold = find_threshold(own, lot, 0.05, alone=alone)
    assert threshold.value == pytest.approx(max(prediction_limit(own, counted, 0.05), counted.max()))
    assert prediction_limit(own, company, 0.05) < threshold.value < lone
    assert (threshold.basis, threshold.free, threshold.lot) == ("lot with margin", False, 8)
    assert threshold.supported == pytest.approx(2 / 9)  # the lone part lies above it, and may not be the last
    assert threshold.ceiling == ceiling(8, 7)
    assert "own 8 good parts count, 1 in part because nothing else that was shown is like it: " in threshold.sentence


def test_a_part_that_stands_alone_below_the_others_counts_as_it_is():
    own, lot = gamma(60, 1), gamma(8, 2, 2.0)
    alone = [bool(score == lot.min()) for score in lot]
    assert find_threshold(own, lot, 0.05, alone=alone).value == find_threshold(own, lot, 0.05).value


def test_scores_that_are_not_positive_count_by_their_difference():
    own, lot = gamma(60, 1) - 2, np.append(gamma(7, 2) - 2, 4.0)
    counted = np.append(lot[:7], 4.0 * LIGHT + lot[:7].max() * (1 - LIGHT))
    threshold = find_threshold(own, lot, 0.05, alone=[False] * 7 + [True])
    assert threshold.value == pytest.approx(max(prediction_limit(own, counted, 0.05), counted.max(), np.sort(own)[57]))


def test_a_lot_with_parts_alone_is_neither_pooled_nor_free():
    own, lot = gamma(120, 1), np.append(gamma(99, 9), 3.0)
    assert find_threshold(own, lot, 0.05).basis == "pooled"
    threshold = find_threshold(own, lot, 0.05, alone=[False] * 99 + [True])
    assert (threshold.basis, threshold.free) == ("lot with margin", False)


@pytest.mark.parametrize("lonely", [6, 8])
def test_where_hardly_any_part_has_company_all_count(lonely):
    own, lot = gamma(60, 1), gamma(8, 2, 2.0)
    alone = [number < lonely for number in range(8)]
    assert find_threshold(own, lot, 0.05, alone=alone).value == find_threshold(own, lot, 0.05).value


def test_a_lot_without_a_station_speaks_alone():
    few, enough = find_threshold([], gamma(8, 1), 0.05), find_threshold([], gamma(20, 1), 0.05)
    assert (few.basis, few.free, few.own, few.lot) == ("lot", False, 0, 8)
    assert (enough.basis, enough.free) == ("lot", True)
    assert "if they are like the 20 good parts of the lot" in enough.sentence


def test_before_any_lot_the_station_speaks_alone():
    enough, few = find_threshold(gamma(100, 1), [], 0.01), find_threshold(gamma(40, 1), [], 0.01)
    assert (enough.basis, enough.free, enough.lot) == ("own", True, 0)
    assert (few.basis, few.free) == ("own", False)
    assert few.value == gamma(40, 1).max()
    assert "40 good parts cannot support a false-reject rate of 1%, only 2.44%" in few.sentence


@settings(deadline=None)
@given(st.lists(st.floats(0.1, 100), min_size=1, max_size=40), st.lists(st.floats(0.1, 100), max_size=24))
def test_a_lower_rate_never_gives_a_lower_threshold(own, lot):
    values = [find_threshold(own, lot, rate).value for rate in (0.5, 0.2, 0.12, 0.1, 0.06, 0.05, 0.04, 0.01)]
    assert all(lower >= higher * (1 - 1e-12) for higher, lower in pairwise(values))


def test_a_threshold_survives_json():
    threshold = find_threshold(gamma(30, 1), gamma(8, 2), 0.05)
    assert Threshold.from_json(threshold.to_json()) == threshold


def test_by_hand_says_so():
    threshold = by_hand(3.5)
    assert (threshold.value, threshold.basis, threshold.false_reject) == (3.5, "by hand", None)
    assert threshold.sentence == "The threshold 3.5 was set by hand; no false-reject rate is promised."
    for value in (float("inf"), float("nan"), -0.1):
        with pytest.raises(DataError, match=f"must be a finite number of at least 0, got {value}: give a score"):
            by_hand(value)


@settings(deadline=None)
@given(st.lists(st.floats(0, 10), min_size=1, max_size=50), st.lists(st.floats(0, 10), max_size=8))
def test_the_histogram_counts_every_score(own, lot):
    counted = histogram(own, lot)
    assert sum(counted["own"]) == len(own)
    assert sum(counted["lot"]) == len(lot)
    assert len(counted["edges"]) == len(counted["own"]) + 1 == len(counted["lot"]) + 1


@pytest.mark.parametrize("rate", [0, 1, -0.1, float("nan")])
def test_rates_that_are_none_are_refused(rate):
    with pytest.raises(DataError, match="The false-reject rate must be (above 0 and below 1|a finite number), got"):
        find_threshold([1.0], [], rate)


def test_scores_that_are_none_are_refused():
    with pytest.raises(DataError, match="The own scores must be a list of finite numbers"):
        find_threshold([1.0, float("nan")], [], 0.1)
    with pytest.raises(DataError, match="A threshold needs the scores of at least one good part, got none"):
        find_threshold([], [], 0.1)
