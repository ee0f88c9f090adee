"""The sequential test: bets are fair, the slow version agrees, false alarms are as rare as promised, shifts are found."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparcal.calibration.defaults import ONE_IN
from sparcal.calibration.shift import ABOVE, OPEN, STAKE, WEIGHT, ShiftTest, payoff
from sparcal.calibration.sight import SIDES, SUDDEN, PartReading

SIGNED = 8


def reading(numbers):
    """A reading in which each signed signal, the pattern and the place is one number, the same at all quantiles."""
    fields = tuple((float(x),) * 5 for x in numbers[: SIGNED + 1])
    return PartReading(fields, (float(numbers[-2]), float(numbers[-1])), 0.0, (0.0, 0.0))


def drawn(rng, shift=0.0):
    return reading(rng.standard_normal(SIGNED + 3) + shift)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 300), st.integers(1, 60))
def test_a_bet_is_fair_when_every_rank_is_as_likely(known, since):
    ranks = np.arange(1, known + since + 1) / (known + since)
    every = np.stack([payoff(np.array([p]), np.array([float(known)]), np.array([float(since)]))[0] for p in ranks])
    assert (every.mean(axis=0) <= 1 + 1e-9).all()
    assert (np.diff(every, axis=0) <= 1e-9).all(), "a larger p never pays more, so p-values that are too large are safe"


def slow(test_readings, known):
    """The open bets, one by one, with loops."""
    pool, bets, totals = [one.yardsticks for one in known], [], []
    for number, one in enumerate(test_readings):
        bets = [*bets, (number, len(pool), np.ones(ABOVE.shape))][-OPEN:]
        p = [(1 + sum(other[j] >= value for other in pool)) / (1 + len(pool)) for j, value in enumerate(one.values)]
        for opened, m, bet in bets:
            i = number - opened + 1
            for j in range(len(SIDES)):
                for kind in range(3):
                    t = min((i + (1 - ABOVE[j, kind]) * m) / (m + i), 1)
                    w = max(STAKE[j, kind], t)
                    bet[j, kind] *= w / t if p[j] <= t * (1 + 1e-12) else ((1 - w) / (1 - t) if t < 1 else 1)
        pool.append(one.yardsticks)
        totals.append(sum(WEIGHT[j] * bet[j].mean() for _, _, bet in bets for j in range(len(SIDES))))
    return totals


def test_it_is_what_the_slow_version_says():
    rng = np.random.default_rng(0)
    known = [drawn(rng) for _ in range(9)]
    stream = [drawn(rng) for _ in range(70)] + [drawn(rng, 1.5) for _ in range(12)]
    test, found = ShiftTest(), []
    test.remember(known)
    for one in stream:
        test.take(one)
        found.append(test.evidence)
    np.testing.assert_allclose(found, slow(stream, known), rtol=1e-9)


def test_weights_share_what_is_put_on_all_bets():
    assert WEIGHT.sum() == pytest.approx(1, abs=1e-12)
    assert (WEIGHT > 0).all()
    assert len(WEIGHT) == len(SIDES)


def test_what_a_defect_can_move_wins_too_little_for_a_burst():
    """Fifteen parts in a row that rank above everything, by the middle of everything that has a name."""
    lasting = np.arange(len(SIDES)) >= len(SUDDEN)
    p = np.full(len(SIDES), 1e-6)
    bets = np.zeros((0, *ABOVE.shape))
    for number in range(15):
        bets = np.concatenate([bets, np.ones((1, *ABOVE.shape))])
        earlier = np.full(number + 1, 5000.0) + np.arange(number + 1)
        bets = bets * payoff(p, earlier, np.arange(number + 1, 0, -1, dtype=float))
    assert (bets.mean(axis=2) @ np.where(lasting, WEIGHT, 0)).sum() < ONE_IN / 2


def test_only_ranks_count(monkeypatch):
    monkeypatch.setattr("sparcal.calibration.sight.NOTICEABLE", (0.0,) * 4)  # what nobody would see has a unit
    rng = np.random.default_rng(1)
    plain, bent = ShiftTest(), ShiftTest()
    for number in range(80):
        values = rng.standard_normal(SIGNED + 3) + (2 if number > 60 else 0)
        values[-2:] = 0  # a place has a play in pixels, which a bend would change
        plain.take(reading(values))
        bent.take(reading(np.sinh(2 * values)))
    assert plain.evidence == pytest.approx(bent.evidence, rel=1e-12)


@pytest.mark.parametrize("one_in", [100, 250])
def test_false_alarms_are_as_rare_as_promised(one_in):
    waits = []
    for seed in range(20):
        rng, test = np.random.default_rng(seed), ShiftTest(one_in)
        test.remember(drawn(rng) for _ in range(8))
        while not test.take(reading(rng.standard_cauchy(SIGNED + 3))) and test.seen < 2 * one_in:  # any distribution
            pass
        waits.append(test.seen)
    assert np.mean(waits) >= one_in, "heavy tails, few known parts, and still"


@pytest.mark.parametrize(("known", "before", "within"), [(16, 200, 6), (16, 0, 14), (8, 200, 6), (8, 0, 32)])
def test_a_plain_shift_is_found_soon_and_dated(known, before, within):
    rng, test = np.random.default_rng(2), ShiftTest()
    test.remember(drawn(rng) for _ in range(known))
    assert not any(test.take(drawn(rng)) for _ in range(before))
    shifted = np.zeros(SIGNED + 3)
    shifted[0] = -12  # darker, and nothing else
    delay = next(n for n in range(1, 100) if test.take(reading(rng.standard_normal(SIGNED + 3) + shifted)))
    assert delay <= within
    assert test.leading == "brightness"
    assert abs(test.since - before) <= 1


def test_the_oldest_parts_are_dropped(monkeypatch):
    monkeypatch.setattr("sparcal.calibration.shift.REMEMBERED", 30)
    rng, test = np.random.default_rng(3), ShiftTest()
    for _ in range(100):
        test.take(drawn(rng))
    assert len(test._order) == 30
    for side, known in enumerate(test._sorted):
        assert known == sorted(one[side] for one in test._order)
