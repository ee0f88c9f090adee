"""The chance of finding a defect by size and contrast: known parameters come back, and no defect is harder for being larger."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparcal.calibration.chance_of_finding import ChanceOfFinding, chance_of_both, loss
from sparcal.errors import DataError

MIDDLE = np.log([25.0, 35.0])


def planted(n, rng, slopes=(3.0, 2.0), ceiling=0.95):
    """Sizes, contrasts, and whether each was found, under known parameters."""
    sizes, contrasts = (np.exp(rng.uniform(np.log(low), np.log(high), n)) for low, high in ((5, 100), (12, 90)))
    logs = np.log(np.column_stack([sizes, contrasts])) - MIDDLE
    return sizes, contrasts, rng.random(n) < chance_of_both(logs, np.array([0.0, *slopes, ceiling]))


def test_the_chance_follows_its_formula():
    p = chance_of_both(np.log([[20.0, 30.0]]), np.array([-10.0, 2.0, 1.5, 0.9]))
    assert p[0] == pytest.approx(0.9 / (1 + np.exp(10 - 2 * np.log(20) - 1.5 * np.log(30))))


def test_known_parameters_come_back():
    model = ChanceOfFinding(*planted(6000, np.random.default_rng(0)))
    for size, contrast in ((10, 20), (25, 35), (25, 15), (60, 60), (30, 8)):
        true = chance_of_both(np.log([[size, contrast]]) - MIDDLE, np.array([0.0, 3.0, 2.0, 0.95]))[0]
        assert model.at(size, contrast) == pytest.approx(true, abs=0.03)


def test_the_fit_is_no_worse_than_a_grid():
    sizes, contrasts, found = planted(96, np.random.default_rng(1))
    model = ChanceOfFinding(sizes, contrasts, found)
    logs = np.log(np.column_stack([sizes, contrasts])) - model._middle
    grid = np.stack(np.meshgrid([-2, -1, 0, 1], [1, 2, 3, 5], [0, 1, 2, 4], [0.8, 0.9, 1.0]), axis=-1).reshape(-1, 4)
    best = min(loss(one, logs, found) for one in grid)
    assert loss(model._best, logs, found) <= best + 1e-9


@given(st.integers(0, 999), st.floats(0, 1))
@settings(max_examples=20, deadline=None)
def test_larger_and_stronger_defects_are_never_harder_to_find(seed, share):
    rng = np.random.default_rng(seed)
    sizes, contrasts, _ = planted(48, rng)
    model = ChanceOfFinding(sizes, contrasts, rng.random(48) < share)
    assert 0 <= model.at(8, 20) <= min(model.at(30, 20), model.at(8, 60)) <= 1


@pytest.mark.parametrize("all_found", [True, False])
def test_all_or_none_found_gives_a_chance_near_it(all_found):
    sizes, contrasts, _ = planted(96, np.random.default_rng(2))
    chance_in_the_middle = ChanceOfFinding(sizes, contrasts, [all_found] * 96).at(25, 35)
    assert chance_in_the_middle == pytest.approx(float(all_found), abs=0.02)


@pytest.mark.parametrize(("size", "contrast"), [(0, 30), (-1, 30), (float("nan"), 30), (20, 0), (20, 256), (20, "30")])
def test_what_no_defect_can_be_is_refused(size, contrast):
    model = ChanceOfFinding(*planted(48, np.random.default_rng(3)))
    with pytest.raises(DataError, match="The (size|contrast) of a defect must be"):
        model.at(size, contrast)
