"""Planted defects: where they lie, that the seed decides, and that sizes and contrasts cover their ranges evenly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparcal.calibration.planted import (
    FAINT_CONTRASTS,
    FAINT_SIZES,
    PLAIN_CONTRASTS,
    PLAIN_SIZES,
    PlantedDefect,
    draw_defects,
    plant,
)
from sparcal.calibration.planted_kinds import KINDS
from sparcal.errors import DataError


def textured(height=96, width=120, seed=0):
    """An image with structure everywhere: stripes of several widths, and noise."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    waves = 40 * np.sin(x / 3) + 30 * np.cos(y / 5 + x / 11)
    grey = 128 + waves + rng.normal(0, 6, (height, width))
    return np.clip(np.stack([grey, 0.9 * grey, 0.8 * grey], axis=2), 0, 255).astype(np.uint8)


IMAGE = textured()
defects = st.builds(
    PlantedDefect,
    kind=st.sampled_from(list(KINDS)),
    size=st.floats(0.012, 0.2),
    contrast=st.floats(12, 90),
    seed=st.integers(0, 2**31 - 1),
)


@settings(deadline=None, max_examples=60)
@given(defect=defects)
def test_pixels_outside_the_mask_are_hardly_changed_and_those_inside_are(defect):
    before = IMAGE.copy()
    image, mask = plant(IMAGE, defect)
    assert np.array_equal(IMAGE, before)
    assert (image.shape, image.dtype, mask.shape, mask.dtype) == (IMAGE.shape, np.uint8, IMAGE.shape[:2], np.bool_)
    change = np.abs(image.astype(int) - IMAGE).max(axis=2)
    assert change[~mask].max(initial=0) <= 2  # less than anybody sees
    assert mask.any()
    assert change[mask].min() >= 1
    assert change[mask].max() >= 2


@settings(deadline=None, max_examples=40)
@given(defect=defects)
def test_a_defect_is_no_larger_than_its_square(defect):
    _, mask = plant(IMAGE, defect)
    y, x = np.nonzero(mask)
    side = 2 * (np.ceil(max(3.0, defect.size * 96) * 0.75) + 4) + 1
    assert np.ptp(y) < side
    assert np.ptp(x) < side


@settings(deadline=None, max_examples=20)
@given(defect=defects)
def test_the_same_seed_gives_the_same_bytes(defect):
    (first, mask), (second, again) = plant(IMAGE, defect), plant(IMAGE.copy(), defect)
    assert first.tobytes() == second.tobytes()
    assert np.array_equal(mask, again)


def test_another_seed_gives_another_defect():
    one, other = (plant(IMAGE, PlantedDefect("stain", 0.1, 60.0, seed))[0] for seed in (1, 2))
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_tiny_defects_lie_on_the_part(kind, seed):
    outline = np.zeros((4, 4), bool)
    outline[1:3, 2:] = True  # rows 24 to 71, columns 60 to 119
    _, mask = plant(IMAGE, PlantedDefect(kind, 0.02, 60.0, seed), outline)
    y, x = np.nonzero(mask)
    reach = 7  # of a defect of 3 pixels, about its middle
    assert y.min() >= 24 - reach
    assert y.max() <= 71 + reach
    assert x.min() >= 60 - reach


def test_the_middle_of_every_defect_is_on_the_part():
    outline = np.zeros((2, 2), bool)
    outline[0, 0] = True
    for seed in range(30):
        _, mask = plant(IMAGE, PlantedDefect("stain", 0.02, 60.0, seed), outline)
        y, x = np.nonzero(mask)
        assert y.mean() < 48 + 2
        assert x.mean() < 60 + 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", [(0, 0), (1, 1)])
def test_a_defect_may_be_cut_by_the_edge_of_the_image(kind, place):
    outline = np.zeros((96, 120), bool)
    outline[(0, 95)[place[0]], (0, 119)[place[1]]] = True
    image, mask = plant(IMAGE, PlantedDefect(kind, 0.2, 80.0, 4), outline)
    assert image.shape == IMAGE.shape
    assert mask.any()


def test_a_defect_that_shows_only_on_structure_looks_for_some():
    """Three quarters of the image are flat: a missing piece would not show there."""
    image = np.full((96, 96, 3), 120, np.uint8)
    image[:48, :48] = textured(48, 48)
    shown = [plant(image, PlantedDefect("missing structure", 0.1, 60.0, seed))[1].any() for seed in range(40)]
    assert sum(shown) >= 34  # eight places are tried; chance alone would show 10


# Which defects


@given(n=st.integers(1, 70), seed=st.integers(0, 1000))
def test_sizes_and_contrasts_cover_their_ranges_evenly(n, seed):
    drawn = draw_defects(n, seed)
    plain, faint = [one for one in drawn if one.plain], [one for one in drawn if not one.plain]
    assert (len(plain), len(faint)) == (n, n // 2)
    for group, sizes, contrasts in ((plain, PLAIN_SIZES, PLAIN_CONTRASTS), (faint, FAINT_SIZES, FAINT_CONTRASTS)):
        for values, (low, high) in (([d.size for d in group], sizes), ([d.contrast for d in group], contrasts)):
            steps = np.log(np.array(values) / low) / np.log(high / low) * len(group)
            assert sorted(np.floor(steps + 1e-9).astype(int).tolist()) == list(range(len(group)))  # one in each n-th


@given(n=st.integers(1, 70))
def test_all_kinds_come_in_turn(n):
    counts = [sum(one.kind == kind and one.plain for one in draw_defects(n, 0)) for kind in KINDS]
    assert max(counts) - min(counts) <= 1


def test_the_seed_and_the_number_decide():
    assert draw_defects(20, 3) == draw_defects(20, 3)
    assert draw_defects(20, 3) != draw_defects(20, 4)
    assert draw_defects(21, 3)[:20] != draw_defects(20, 3)
    assert len({one.seed for one in draw_defects(64, 0)}) == 96


@pytest.mark.parametrize(
    ("kind", "size", "contrast", "message"),
    [
        ("dint", 0.1, 30.0, "PlantedDefect.kind must be one of scratch, stain, hole, particle"),
        ("stain", 0.0, 30.0, "PlantedDefect.size must be in (0, 1], got 0.0: it is a share of the image"),
        ("stain", 1.1, 30.0, "PlantedDefect.size must be in (0, 1], got 1.1"),
        ("stain", 0.1, 0.0, "contrast must be a finite number above 0 and at most 255, got 0.0: these are grey levels"),
        ("stain", 0.1, 256.0, "above 0 and at most 255, got 256.0: these are grey levels"),
        ("stain", float("nan"), 30.0, "must be in (0, 1], got nan"),
    ],
)
def test_defects_that_are_none_are_refused(kind, size, contrast, message):
    with pytest.raises(DataError) as caught:
        PlantedDefect(kind, size, contrast, 0)
    assert message in str(caught.value)


def test_no_defect_and_no_part_are_refused():
    with pytest.raises(
        DataError, match="number of planted defects must be a whole number of at least 1, got 0: ask for"
    ):
        draw_defects(0, 0)
    with pytest.raises(DataError, match="need a part to lie on, got an outline without a cell"):
        plant(IMAGE, PlantedDefect("stain", 0.1, 30.0, 0), np.zeros((4, 4), bool))
