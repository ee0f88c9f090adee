"""Thresholds from good parts: ranks against their definition, margins against all draws, and rates by simulation."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparcal.calibration.thresholds import (
    Threshold,
    by_hand,
    ceiling,
    chance_of_higher,
    conformal_rank,
    find_threshold,
    histogram,
    margin,
    raised,
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
    assert "only 11.11% on average and 31.2% in 19 of 20 lots" in threshold.sentence


@pytest.mark.parametrize("rate", RATES)
def test_the_pooled_rate_holds_on_average(rate):
    """Parts of one population: the mean rate over many stations and lots is at most the rate asked for."""
    rates = []
    for seed in range(300):
        sample = gamma(120 + 8 + 200, seed)
        threshold = find_threshold(sample[:120], sample[120:128], rate)
        rates.append((sample[128:] > threshold.value).mean())
    error = np.std(rates) / np.sqrt(len(rates))
    assert np.mean(rates) <= rate + 2 * error
    assert np.mean(rates) >= rate - 1 / 100 - 2 * error  # and not far below it


@pytest.mark.parametrize("rate", RATES)
def test_the_margin_keeps_the_rate_on_a_lot_that_scores_higher(rate):
    """The lot's scores are twice the station's: eight samples and the station's shape give the rate on average."""
    rates, bases = [], set()
    for seed in range(300):
        own, lot, parts = gamma(120, seed), gamma(8, 10_000 + seed, 2.0), gamma(200, 20_000 + seed, 2.0)
        threshold = find_threshold(own, lot, rate)
        bases.add(threshold.basis)
        rates.append((parts > threshold.value).mean())
    assert bases == {"lot with margin"}
    assert np.mean(rates) <= rate + 2 * np.std(rates) / np.sqrt(len(rates)) + 0.002


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.3])
@pytest.mark.parametrize(("n", "k"), [(6, 2), (9, 3), (10, 8)])
def test_the_margin_is_exact_over_all_draws(n, k, rate):
    own = gamma(n, n)

    def exceeded(factor):
        shares = []
        for draw in combinations(range(n), k):
            others = np.delete(own, draw)
            shares.append((others > factor * own[list(draw)].max() * (1 + 1e-12)).mean())
        return np.mean(shares)

    found = margin(own, k, rate)
    assert found >= 1
    assert exceeded(found) <= rate
    if found > 1:
        assert exceeded(found * (1 - 1e-9)) > rate


def test_a_margin_of_scores_that_are_not_all_positive_is_a_difference():
    own = gamma(60, 1)
    shifted = np.log(own)  # some below 0
    assert (shifted < 0).any()
    assert raised(0.5, margin(shifted, 8, 0.05), shifted) == pytest.approx(0.5 + np.log(margin(own, 8, 0.05)))


def test_few_own_parts_give_no_margin():
    assert margin(gamma(8, 1), 8, 0.01) == 1.0
    assert margin(-gamma(8, 1), 8, 0.01) == 0.0


def test_agreement_sees_a_shift_and_a_single_high_part():
    own = gamma(100, 1)
    same = [chance_of_higher(gamma(8, seed), own) for seed in range(100, 300)]
    assert np.mean(np.array(same) < 0.05) < 0.12
    assert chance_of_higher(gamma(8, 5, 1.5), own) < 0.01
    one_high = np.append(np.sort(own)[40:47], 3 * own.max())
    assert chance_of_higher(one_high, own) == pytest.approx(2 * 8 / 108)
    assert chance_of_higher(gamma(8, 5, 0.5), own) == 1.0


def test_the_chance_of_the_largest_is_the_share_of_draws():
    own, lot = np.array([1.0, 2.0, 3.0, 10.0]), np.array([4.0, 0.5])
    everything = np.concatenate([own, lot])
    top = np.sort(everything)[::-1][:2]  # the lot's largest stands second
    draws = list(combinations(range(6), 2))
    share = np.mean([bool(set(everything[list(draw)]) & set(top)) for draw in draws])
    assert chance_of_higher(lot, own) == pytest.approx(min(1.0, 2 * share))


def test_a_supported_rate_on_a_higher_lot_is_distribution_free():
    threshold = find_threshold(gamma(50, 1), gamma(20, 2, 3.0), 0.05)
    assert threshold.basis == "lot"
    assert threshold.free
    assert threshold.value == np.sort(gamma(20, 2, 3.0))[-1]
    assert "at most 5.00% of good parts are rejected" in threshold.sentence


def test_a_lot_that_scores_lower_is_pooled_and_never_lowers_the_bar_alone():
    own = gamma(120, 1)
    threshold = find_threshold(own, gamma(8, 2, 0.5), 0.05)
    assert threshold.basis == "pooled"
    assert threshold.value >= np.quantile(own, 0.94)


def test_eight_samples_say_what_they_cannot_support():
    threshold = find_threshold(gamma(120, 1), gamma(8, 2, 2.0), 0.01)
    assert not threshold.free
    assert threshold.supported == pytest.approx(1 / 9)
    assert "8 samples cannot support a false-reject rate of 1.00%, only 11.11%" in threshold.sentence
    assert "times 1." in threshold.sentence


def test_before_any_lot_the_station_speaks_alone():
    enough, few = find_threshold(gamma(100, 1), [], 0.01), find_threshold(gamma(40, 1), [], 0.01)
    assert (enough.basis, enough.free, enough.lot) == ("own", True, 0)
    assert (few.basis, few.free) == ("own", False)
    assert few.value == gamma(40, 1).max()
    assert "40 good parts cannot support a false-reject rate of 1.00%, only 2.44%" in few.sentence


@settings(deadline=None)
@given(st.lists(st.floats(0.1, 100), min_size=1, max_size=40), st.lists(st.floats(0.1, 100), max_size=9))
def test_a_lower_rate_never_gives_a_lower_threshold(own, lot):
    values = [find_threshold(own, lot, rate).value for rate in (0.5, 0.2, 0.1, 0.05, 0.01)]
    assert values == sorted(values)


def test_a_threshold_survives_json():
    threshold = find_threshold(gamma(30, 1), gamma(8, 2), 0.05)
    assert Threshold.from_json(threshold.to_json()) == threshold


def test_by_hand_says_so():
    threshold = by_hand(3.5)
    assert (threshold.value, threshold.basis, threshold.false_reject) == (3.5, "by hand", None)
    assert threshold.sentence == "The threshold 3.5 was set by hand; no false-reject rate is promised."
    with pytest.raises(DataError, match="A threshold set by hand must be a finite number, got inf: give a score."):
        by_hand(float("inf"))


@given(st.lists(st.floats(0, 10), min_size=1, max_size=50), st.lists(st.floats(0, 10), max_size=8))
def test_the_histogram_counts_every_score(own, lot):
    counted = histogram(own, lot)
    assert sum(counted["own"]) == len(own)
    assert sum(counted["lot"]) == len(lot)
    assert len(counted["edges"]) == len(counted["own"]) + 1 == len(counted["lot"]) + 1


@pytest.mark.parametrize("rate", [0, 1, -0.1, float("nan")])
def test_rates_that_are_none_are_refused(rate):
    with pytest.raises(DataError, match="The false-reject rate must be above 0 and below 1, got"):
        find_threshold([1.0], [], rate)


def test_scores_that_are_none_are_refused():
    with pytest.raises(DataError, match="The own scores must be a list of finite numbers"):
        find_threshold([1.0, float("nan")], [], 0.1)
    with pytest.raises(DataError, match="A threshold needs the scores of at least one good part, got none"):
        find_threshold([], [], 0.1)
