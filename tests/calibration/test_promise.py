"""The bet against a threshold's promise: right by quadrature, fair at every look, and quick where the promise is broken."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from sparcal.calibration.promise import SLIP, check_promise, stake_against
from sparcal.calibration.thresholds import Threshold, by_hand, find_threshold
from sparcal.errors import DataError


def promise(parts: int = 40) -> Threshold:
    return find_threshold(np.linspace(1, 2, parts), [], 0.05)


@settings(deadline=None)
@given(st.floats(0.01, 0.9), st.integers(0, 60), st.data())
def test_the_stake_is_the_mean_likelihood_ratio(rate: float, judged: int, data: st.DataObject) -> None:
    rejected = data.draw(st.integers(0, judged))

    def ratio(q: float) -> float:
        return (q / rate) ** rejected * ((1 - q) / (1 - rate)) ** (judged - rejected)

    slow = quad(ratio, rate, 1, limit=200)[0] / (1 - rate)
    assert stake_against(rate, judged, rejected) == pytest.approx(slow, rel=1e-6)


@settings(deadline=None)
@given(st.floats(0.01, 0.9), st.integers(0, 40), st.data())
def test_a_promise_that_holds_just_so_leaves_the_bet_fair(rate: float, judged: int, data: st.DataObject) -> None:
    rejected = data.draw(st.integers(0, judged))
    now = stake_against(rate, judged, rejected)
    after = rate * stake_against(rate, judged + 1, rejected + 1) + (1 - rate) * stake_against(
        rate, judged + 1, rejected
    )
    assert after == pytest.approx(now, rel=1e-9)


def test_it_starts_at_one_and_grows_with_every_reject() -> None:
    assert stake_against(0.3, 0, 0) == pytest.approx(1)
    stakes = [stake_against(0.1, 30, rejected) for rejected in range(31)]
    assert stakes == sorted(stakes)


def test_looking_after_each_part_raises_no_more_false_alarms_than_promised() -> None:
    rng = np.random.default_rng(0)
    rate, streams, parts = 0.1, 400, 300
    alarms = 0
    for _ in range(streams):
        seen = np.cumsum(rng.random(parts) < rate)
        alarms += any(stake_against(rate, n + 1, int(m)) >= 1 / SLIP for n, m in enumerate(seen))
    assert alarms <= 3 * SLIP * streams  # about 3 standard deviations above SLIP


def test_a_broken_promise_is_noticed_within_a_shift() -> None:
    rng = np.random.default_rng(1)
    needed = []
    for _ in range(50):
        seen = np.cumsum(rng.random(300) < 0.5)
        needed.append(next(n + 1 for n, m in enumerate(seen) if stake_against(0.15, n + 1, int(m)) >= 1 / SLIP))
    assert np.median(needed) < 30


def test_the_sentence_says_what_was_seen_and_promised() -> None:
    threshold = promise()
    assert threshold.ceiling is not None
    fine, broken = check_promise(threshold, 60, 3), check_promise(threshold, 60, 41)
    assert not fine.contradicted
    assert "3 of 60 parts were rejected" in fine.sentence
    assert broken.contradicted
    assert f"where at most {threshold.ceiling:.1%} of good parts were promised" in broken.sentence
    assert "calibrate again" in broken.sentence


def test_a_threshold_set_by_hand_promises_nothing() -> None:
    check = check_promise(by_hand(3.0), 50, 50)
    assert (check.promised, check.stake, check.contradicted) == (None, 0.0, False)
    assert check.sentence == "This threshold promises no false-reject rate."


@pytest.mark.parametrize(("judged", "rejected"), [(3, 4), (3, -1), (-2, -2)])
def test_impossible_counts_are_refused(judged: int, rejected: int) -> None:
    with pytest.raises(DataError, match="can be rejected, got"):
        check_promise(promise(), judged, rejected)


def test_the_ends_of_the_scale() -> None:
    assert stake_against(1.0, 10, 10) == 1
    assert stake_against(0.0, 3, 1) == math.inf
    assert stake_against(0.0, 3, 0) == pytest.approx(1 / 4)
    assert stake_against(0.05, 10**6, 10**6) == math.inf
    assert stake_against(0.5, 10**6, 10) == 0
