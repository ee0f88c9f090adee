"""Each kind of planted defect: it shows, by the contrast that was asked for, in the middle of its square."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparcal.calibration.planted_kinds import KINDS

STRUCTURE = ("displaced piece", "missing structure")  # these only move or hide what is there


def square(side, seed, *, flat=False):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:side, :side]
    pattern = 50 * np.sin(x / 3) * np.cos(y / 4) + rng.normal(0, 8, (side, side))
    grey = np.asarray(128 + (0 if flat else 1) * pattern, np.float32)
    return np.repeat(grey[..., None], 3, axis=2)


def side_of(size):
    return 2 * (int(np.ceil(size * 0.75)) + 4) + 1


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=30)
@given(size=st.floats(3, 60), contrast=st.floats(12, 90), seed=st.integers(0, 10_000))
def test_every_kind_changes_something_on_a_textured_square(kind, size, contrast, seed):
    before = square(side_of(size), seed)
    kept = before.copy()
    drawn, cover = KINDS[kind](before, size, contrast, np.random.default_rng(seed))
    assert np.array_equal(before, kept)
    assert drawn.shape == before.shape
    assert cover.shape == before.shape[:2]
    assert np.isfinite(drawn).all()
    assert cover.min() >= 0
    assert cover.max() <= 1
    assert np.abs(drawn - before).max() > 1


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in (*STRUCTURE, "hole", "particle")])
@settings(deadline=None, max_examples=30)
@given(size=st.floats(6, 60), contrast=st.floats(12, 90), seed=st.integers(0, 10_000))
def test_pixels_change_by_the_contrast_on_average(kind, size, contrast, seed):
    before = square(side_of(size), seed)
    drawn, cover = KINDS[kind](before, size, contrast, np.random.default_rng(seed))
    assert np.abs(drawn - before)[cover > 0.5].mean() == pytest.approx(contrast, rel=0.01)


@pytest.mark.parametrize("kind", ["hole", "particle"])
@pytest.mark.parametrize("seed", range(8))
def test_what_hides_the_surface_changes_a_flat_one_by_the_contrast(kind, seed):
    before = square(side_of(30.0), seed, flat=True)
    drawn, cover = KINDS[kind](before, 30.0, 40.0, np.random.default_rng(seed))
    assert np.abs(drawn - before)[cover > 0.5].mean() == pytest.approx(40.0, rel=0.01)


@pytest.mark.parametrize("kind", STRUCTURE)
@settings(deadline=None, max_examples=30)
@given(size=st.floats(6, 60), contrast=st.floats(5, 90), seed=st.integers(0, 10_000))
def test_what_moves_or_hides_structure_changes_by_the_contrast_at_most(kind, size, contrast, seed):
    before = square(side_of(size), seed)
    drawn, cover = KINDS[kind](before, size, contrast, np.random.default_rng(seed))
    assert np.abs(drawn - before)[cover > 0.5].mean() <= contrast * 1.01


@pytest.mark.parametrize("kind", STRUCTURE)
def test_nothing_can_be_missing_from_a_flat_surface(kind):
    before = square(side_of(20.0), 0, flat=True)
    drawn, _ = KINDS[kind](before, 20.0, 60.0, np.random.default_rng(0))
    assert np.abs(drawn - before).max() < 0.5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_a_defect_is_about_as_large_as_it_was_asked_to_be(kind, seed):
    size = 40.0
    before = square(side_of(size), seed)
    _, cover = KINDS[kind](before, size, 60.0, np.random.default_rng(seed))
    y, x = np.nonzero(cover > 0.5)
    middle = (len(before) - 1) / 2
    reach = 2 * np.hypot(y - middle, x - middle).max()
    assert 0.3 * size <= reach <= 1.45 * size


def test_a_dark_surface_gets_brighter_defects():
    dark = np.full((69, 69, 3), 10, np.float32)
    for kind in ("stain", "hole", "particle"):
        drawn, cover = KINDS[kind](dark, 40.0, 60.0, np.random.default_rng(1))
        assert drawn[cover > 0.5].mean() > 30
