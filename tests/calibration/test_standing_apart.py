"""Parts that stand apart: who they are, and what they and the station's own parts count for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparcal.calibration.log_scores import prediction_limit
from sparcal.calibration.standing_apart import (
    APART,
    LIGHT,
    ODD_AT_MOST,
    OWN_AT_MOST,
    in_company,
    in_part,
    not_far_above,
    stand_apart,
)


def gamma(n, seed, scale=1.0):
    return scale * np.random.default_rng(seed).gamma(30, 1 / 30, n)


def test_a_part_within_what_the_others_explain_does_not_stand_apart():
    own, company = gamma(60, 1), gamma(7, 2, 2.0)
    limit = prediction_limit(np.minimum(own, OWN_AT_MOST * company.max()), company, APART)
    for factor, apart in ((0.999, False), (1.001, True)):
        assert stand_apart(own, np.append(company, factor * limit), []).any() == apart
    assert not stand_apart(own, np.append(company, 99.0), [], by_score=False).any()
    assert not stand_apart(own, np.append(gamma(3, 2, 2.0), 99.0), []).any(), "too few to tell which one is odd"


def test_good_parts_of_one_distribution_hardly_ever_stand_apart():
    own = gamma(40, 0)
    apart = [stand_apart(own, gamma(8, 1000 + seed), []).any() for seed in range(2000)]
    assert np.mean(apart) < 8 * APART + 3 * np.sqrt(8 * APART / 2000)


def test_two_parts_do_not_hide_each_other():
    own, company = gamma(60, 1), gamma(6, 2, 2.0)
    lot = np.append(company, [8.0, 9.0])
    assert list(stand_apart(own, lot, [])) == [False] * 6 + [True] * 2
    shuffled = np.random.default_rng(0).permutation(8)
    assert list(stand_apart(own, lot[shuffled], [])) == list(lot[shuffled] >= 8.0)


@given(st.lists(st.floats(0.5, 50), min_size=4, max_size=18), st.integers(0, 99))
def test_who_stands_apart_lies_above_everybody_who_does_not(scores, seed):
    lot = np.array(scores)
    apart = stand_apart(gamma(40, seed), lot, [])
    assert (~apart).sum() >= 4
    assert not apart.any() or lot[apart].min() >= lot[~apart].max()


def test_the_check_alone_is_believed_while_enough_are_left_in_company():
    own, lot = gamma(60, 1), gamma(8, 2)
    two = [True, True] + [False] * 6
    assert list(stand_apart(own, lot, two)) == two
    five, six = ([True] * alone + [False] * (8 - alone) for alone in (5, 6))
    assert list(stand_apart(own, lot, five)) == five
    assert not stand_apart(own, lot, six).any()
    assert list(in_company(two, 8)) == [not one for one in two]
    assert in_company(six, 8).all()
    assert in_company([], 8).all()


def test_a_high_score_sets_apart_beside_a_light_only_while_four_are_left():
    own, company = gamma(60, 1), gamma(4, 2, 2.0)
    for left, odd in ((4, True), (3, False)):
        lot = np.concatenate([company[:left], [9.0, 2.0]])
        alone = [False] * (left + 1) + [True]
        assert list(stand_apart(own, lot, alone)) == [False] * left + [odd, True]


@given(st.lists(st.floats(0.1, 100), min_size=2, max_size=12), st.floats(0, 1), st.integers(0, 2**12 - 1))
def test_who_stands_apart_counts_from_the_highest_in_company_towards_its_score(scores, share, by_light):
    lot = np.array(scores)
    apart = np.arange(len(lot)) < int(share * (len(lot) - 1))
    alone = [bool(by_light >> number & 1) for number in range(len(lot))]
    company, moved = lot[~apart].max(), in_part(lot, apart, alone)
    assert np.array_equal(moved[~apart], lot[~apart])
    for before, after, light in zip(lot[apart], moved[apart], np.array(alone)[apart], strict=True):
        lit, odd = company ** (1 - LIGHT) * before**LIGHT, min(before, ODD_AT_MOST * company)
        assert after == (pytest.approx(lit if light else odd) if before > company else before)


def test_scores_without_a_factor_reach_three_deviations_above_those_in_company():
    lot, apart = np.array([-1.0, 1.0, 3.0, 50.0]), np.array([False, False, False, True])
    assert in_part(lot, apart, ())[-1] == pytest.approx(3.0 + 3 * np.std([-1.0, 1.0, 3.0]))
    assert in_part(lot, apart, [False, False, False, True])[-1] == pytest.approx(3.0 + LIGHT * 47.0)


def test_without_a_word_on_lights_only_scores_set_parts_apart():
    lot, apart = np.array([1.0, 2.0, 9.0]), np.array([False, False, True])
    assert np.array_equal(in_part(lot, apart, ()), in_part(lot, apart, [False] * 3))


def test_the_stations_own_parts_reach_a_quarter_above_the_lot_at_most():
    own, lot = np.array([1.0, 2.0, 9.0]), np.array([1.0, 4.0])
    assert list(not_far_above(own, lot)) == [1.0, 2.0, OWN_AT_MOST * 4.0]
    assert list(not_far_above(-own, lot)) == list(-own), "scores that are not positive have no factor"
