"""Log scores of good parts, and what a further part stays below."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from sparcal.calibration.log_scores import BORROWED, prediction_limit

RATES = (0.01, 0.05, 0.10)


def gamma(n, seed, scale=1.0):
    return scale * np.random.default_rng(seed).gamma(30, 1 / 30, n)


def rates_of_the_prediction_limit(own, k, rate):
    """Log scores are normal, the lot's lie higher than the station's: the shares of the lot above limits, exactly."""
    rng = np.random.default_rng([own, k, int(1000 * rate)])
    for _ in range(2000):
        limit = prediction_limit(np.exp(rng.normal(0, 0.2, own)), np.exp(rng.normal(0.7, 0.2, k)), rate)
        yield 1 - ndtr((np.log(limit) - 0.7) / 0.2)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("k", [4, 8, 16])
@pytest.mark.parametrize("own", [3, BORROWED + 1])
def test_the_prediction_limit_keeps_the_rate_on_average(own, k, rate):
    rates = list(rates_of_the_prediction_limit(own, k, rate))
    assert np.mean(rates) == pytest.approx(rate, abs=3 * np.std(rates) / np.sqrt(len(rates)))


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("k", [4, 8, 16])
def test_a_station_that_knows_its_spread_better_than_it_lends_stays_below_the_rate(k, rate):
    rates = list(rates_of_the_prediction_limit(120, k, rate))
    error = np.std(rates) / np.sqrt(len(rates))
    assert 0.5 * rate <= np.mean(rates) <= rate + 3 * error


def test_the_prediction_limit_is_students_about_the_lots_mean():
    own, lot, rate = gamma(60, 1), gamma(8, 2, 2.0), 0.03
    x, y = np.log(lot), np.log(own)
    freedom = 7 + BORROWED
    spread = np.sqrt((7 * np.var(x, ddof=1) + BORROWED * np.var(y, ddof=1)) / freedom)
    expected = np.exp(x.mean() + stats.t.ppf(1 - rate, freedom) * spread * np.sqrt(1 + 1 / 8))
    assert prediction_limit(own, lot, rate) == pytest.approx(expected)


def test_scores_that_are_not_all_positive_are_taken_as_they_are():
    own, lot = gamma(60, 1), gamma(8, 2, 1.5)
    assert (np.log(own) < 0).any()
    assert prediction_limit(np.log(own), np.log(lot), 0.05) == pytest.approx(np.log(prediction_limit(own, lot, 0.05)))


def test_a_single_part_and_no_station_leave_no_spread():
    assert prediction_limit(np.array([]), np.array([3.0]), 0.05) == 3.0
    assert prediction_limit(np.array([2.0]), np.array([3.0]), 0.05) == 3.0
    equal = prediction_limit(np.full(9, 2.0), np.full(5, 3.0), 0.05)
    assert equal == pytest.approx(3.0)
