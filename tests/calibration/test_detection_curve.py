"""The probability-of-detection curve: known parameters come back, the bound covers, and where nothing can be said it says so."""

from __future__ import annotations

import numpy as np
import pytest

from sparcal.calibration.detection_curve import DetectionCurve, chance, detection_curve, log_likelihood
from sparcal.errors import DataError


def planted(n, rng, low=5.0, high=100.0):
    return np.exp(rng.uniform(np.log(low), np.log(high), n))


def tried(a, parameters, floor, rng):
    return rng.random(len(a)) < chance(a, np.array(parameters), floor)


def a90_of(parameters, floor):
    middle, width, ceiling = parameters
    share = (0.9 - floor) / (ceiling - floor)
    return float(np.exp(middle - width * np.log(1 / share - 1)))


def test_the_chance_follows_its_formula():
    a, floor, (middle, width, ceiling) = np.array([3.0, 20.0, 80.0]), 0.05, (np.log(20), 0.4, 0.97)
    slow = [floor + (ceiling - floor) / (1 + np.exp(-(np.log(x) - middle) / width)) for x in a]
    np.testing.assert_allclose(chance(a, np.array([middle, width, ceiling]), floor), slow)
    assert chance(a, np.array([middle, width, ceiling]), floor)[1] == pytest.approx((floor + ceiling) / 2)


def test_the_likelihood_is_the_product_of_chances():
    a, hit = np.array([3.0, 20.0, 80.0]), np.array([False, True, True])
    p = chance(a, np.array([3.0, 0.4, 1.0]), 0.05)
    assert np.exp(log_likelihood(np.array([3.0, 0.4, 1.0]), a, hit, 0.05)) == pytest.approx((1 - p[0]) * p[1] * p[2])


@pytest.mark.parametrize(("middle", "width"), [(15.0, 0.15), (25.0, 0.3), (40.0, 0.2)])
def test_known_parameters_come_back(middle, width):
    rng, floor = np.random.default_rng(1), 0.05
    parameters = (np.log(middle), width, 1.0)
    a = planted(4000, rng)
    curve = detection_curve(a.tolist(), tried(a, parameters, floor, rng).tolist(), floor=floor)
    assert curve.a90 == pytest.approx(a90_of(parameters, floor), rel=0.1)
    half = float(np.exp(parameters[0] - width * np.log((1 - floor) / (0.5 - floor) - 1)))
    assert curve.a50 == pytest.approx(half, rel=0.06)
    assert curve.a50 < curve.a90 < curve.a90_bound < 1.15 * curve.a90
    assert curve.ceiling == pytest.approx(1.0, abs=0.02)
    expected = chance(np.array(curve.sizes), np.array(parameters), floor)
    np.testing.assert_allclose(curve.chances, expected, atol=0.05)


def test_the_fit_is_the_best_of_a_grid():
    rng, floor = np.random.default_rng(2), 0.05
    a = planted(60, rng)
    hit = tried(a, (np.log(20), 0.3, 1.0), floor, rng)
    curve = detection_curve(a.tolist(), hit.tolist(), floor=floor)
    p = np.clip(np.interp(np.log(a), np.log(curve.sizes), curve.chances), 1e-9, 1 - 1e-9)
    reached = float(np.where(hit, np.log(p), np.log1p(-p)).sum())
    grid = [
        log_likelihood(np.array([middle, width, ceiling]), a, hit, floor)
        for middle in np.linspace(1, 5, 30)
        for width in np.geomspace(0.03, 3, 20)
        for ceiling in np.linspace(0.3, 1, 15)
    ]
    assert reached >= max(grid) - 0.05


@pytest.mark.slow
@pytest.mark.parametrize(("middle", "width", "least"), [(12.0, 0.5, 0.9), (18.0, 0.25, 0.82)])
def test_the_bound_lies_above_the_true_size_in_about_19_of_20_cases(middle, width, least):
    """In fewer where the curve is so steep that only a few of 96 defects lie on it: 87 % were measured there."""
    floor, parameters = 0.05, (np.log(middle), width, 1.0)
    true, above, given = a90_of(parameters, floor), 0, 0
    for seed in range(120):
        rng = np.random.default_rng([7, seed])
        a = planted(96, rng)
        curve = detection_curve(a.tolist(), tried(a, parameters, floor, rng).tolist(), floor=floor)
        if curve.a90_bound is not None:
            given += 1
            above += curve.a90_bound >= true
    assert given >= 60
    assert least <= above / given <= 0.995


def test_a_ceiling_below_nine_tenths_is_said():
    rng, floor = np.random.default_rng(3), 0.05
    a = planted(2000, rng)
    curve = detection_curve(a.tolist(), tried(a, (np.log(15), 0.2, 0.7), floor, rng).tolist(), floor=floor)
    assert curve.a90 is None
    assert curve.a90_bound is None
    assert curve.ceiling == pytest.approx(0.7, abs=0.05)
    assert "nine in ten are not reached at any size planted" in curve.sentence
    assert "faint ones are missed" in curve.sentence


def test_few_found_even_of_the_largest():
    rng, floor = np.random.default_rng(4), 0.05
    a = planted(500, rng)
    curve = detection_curve(a.tolist(), tried(a, (np.log(400), 0.3, 1.0), floor, rng).tolist(), floor=floor)
    assert curve.a50 is None
    assert curve.sentence == f"Even of the largest, {a.max():.0f} pixels, fewer than half are found."


def test_a_few_samples_support_no_bound():
    sizes = [5, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80]
    found = [False, False, False, True, False, True, True, False, True, True, True, True]
    curve = detection_curve(sizes, found, floor=0.05)
    assert curve.a90 is None or curve.a90_bound is None or curve.a90_bound > curve.a90


@pytest.mark.parametrize(
    ("sizes", "found", "sentence"),
    [
        ([], [], "0 of 0 were found: too few to say how it depends on the size."),
        ([5.0] * 11, [True] * 5 + [False] * 6, "5 of 11 were found: too few to say how it depends on the size."),
        ([5.0] * 30, [True] * 2 + [False] * 28, "2 of 30 were found: too few to say how it depends on the size."),
        ([7.0, 9.0] * 15, [True] * 28 + [False] * 2, "Nearly all were found, from 7 pixels on: the sizes planted show no limit."),
    ],
)  # fmt: skip
def test_where_nothing_can_be_said_it_says_so(sizes, found, sentence):
    curve = detection_curve(sizes, found, floor=0.05)
    assert (curve.a50, curve.a90, curve.a90_bound, curve.ceiling, curve.sizes, curve.chances) == (None,) * 4 + ((), ())
    assert curve.sentence == sentence


def test_a_curve_survives_json():
    rng = np.random.default_rng(5)
    a = planted(80, rng)
    curve = detection_curve(a.tolist(), tried(a, (np.log(20), 0.3, 1.0), 0.05, rng).tolist(), floor=0.05)
    assert DetectionCurve.from_json(curve.to_json()) == curve


def test_the_chance_at_a_size_is_the_curves():
    rng, parameters = np.random.default_rng(6), (np.log(20), 0.3, 1.0)
    a = planted(4000, rng)
    curve = detection_curve(a.tolist(), tried(a, parameters, 0.05, rng).tolist(), floor=0.05)
    for size in (8.0, 20.0, 33.3):
        assert curve.at(size) == pytest.approx(float(chance(np.array([size]), np.array(parameters), 0.05)[0]), abs=0.03)
    assert curve.at(1.0) == curve.chances[0], "sizes that were not planted count as the nearest"
    assert curve.at(9999.0) == curve.chances[-1]
    assert detection_curve([], [], floor=0.05).at(20.0) is None


@pytest.mark.parametrize("size", [0, -1, float("nan"), float("inf"), "20"])
def test_a_size_that_is_none_is_refused(size):
    with pytest.raises(DataError, match="The size of a defect must be"):
        detection_curve([], [], floor=0.05).at(size)
