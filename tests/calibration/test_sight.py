"""A part as a whole: what is read of it stays put under a defect, and moves under another lamp or camera."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sparcal.calibration.sight import (
    HIGH,
    LOW,
    SIDES,
    SPARED,
    PartReading,
    Sight,
    expect,
    moved_by,
    read,
    read_each,
    see,
)
from sparcal.imaging.appearance import FIELD_GRID, PICTURE_EDGE, Appearance
from sparcal.types import Features

CELLS = FIELD_GRID * FIELD_GRID


def drawn(seed, *, light=0.0, spoilt=()):
    """A part: noise about a fixed pattern; `light` is added to every field, and `spoilt` ones are anything."""
    rng = np.random.default_rng(seed)
    fields = np.sin(np.arange(4 * CELLS)).reshape(4, FIELD_GRID, FIELD_GRID) + 0.05 * rng.standard_normal(
        (4, FIELD_GRID, FIELD_GRID)
    )
    sketch = np.cos(np.arange(CELLS * 4)).reshape(FIELD_GRID, FIELD_GRID, 4) + 0.1 * rng.standard_normal(
        (FIELD_GRID, FIELD_GRID, 4)
    )
    fields, sketch = fields + light, sketch + light
    for place in spoilt:
        fields.reshape(4, -1)[:, place] = rng.normal(0, 50, 4)
        sketch.reshape(-1, 4)[place] = rng.normal(0, 50, 4)
    picture = np.random.default_rng(0).random((PICTURE_EDGE, PICTURE_EDGE))
    return Sight(Appearance(fields.astype(np.float32), picture.astype(np.float32)), sketch.astype(np.float32))


@pytest.fixture(scope="module")
def expected():
    return expect([drawn(seed) for seed in range(12)])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**16), st.floats(0, 1))
def test_a_defect_on_the_spared_fields_is_never_read_above_the_whole_part(expected, seed, share):
    places = np.random.default_rng(seed).permutation(CELLS)[: int(share * (SPARED * CELLS - 2))]
    whole, hurt = read(drawn(seed), expected), read(drawn(seed, spoilt=places), expected)
    assert (hurt.values <= whole.yardsticks + 1e-5).all()


def test_a_change_of_all_fields_is_read_on_the_side_it_goes_to(expected):
    for light in (1.0, -1.0):
        reading = read(drawn(99, light=light), expected)
        beyond = reading.values > np.max([one.yardsticks for one in read_each([drawn(s) for s in range(12)])], axis=0)
        up = [beyond[2 * i] for i in range(8)]
        down = [beyond[2 * i + 1] for i in range(8)]
        assert (all(up), any(down)) == ((True, False) if light > 0 else (False, True))
        assert beyond[SIDES.index("pattern")]


def test_quantiles_are_taken_over_fields():
    sights = [drawn(seed) for seed in range(5)]
    expected = expect(sights)
    reading = read(sights[0], expected)
    change = np.sort((sights[0].appearance.fields[0] - expected.fields[0]).ravel())
    for quantile, value in zip((LOW, HIGH, 0.5), reading.quantiles[0], strict=False):
        assert value == pytest.approx(np.quantile(change, quantile), abs=1e-6)


def test_readings_survive_being_written(expected):
    reading = read(drawn(3), expected)
    kept = PartReading.from_json(json.loads(json.dumps(reading.to_json())))
    assert kept == PartReading.from_json(kept.to_json()), "what was written once stays"
    np.testing.assert_allclose(kept.values, reading.values, rtol=1e-5, atol=1e-9)
    assert len(kept.values) == len(kept.yardsticks) == len(SIDES)


@pytest.mark.parametrize(("right", "down"), [(0, 0), (3, 0), (0, -2), (-4, 5)])
def test_a_displacement_is_found_also_under_less_light(right, down):
    rng = np.random.default_rng(5)
    scene = np.kron(rng.random((24, 24)), np.ones((8, 8)))
    here = scene[48 - down : 48 - down + PICTURE_EDGE, 48 - right : 48 - right + PICTURE_EDGE].astype(np.float32)
    there = scene[48 : 48 + PICTURE_EDGE, 48 : 48 + PICTURE_EDGE].astype(np.float32)
    assert moved_by(0.6 * here, there) == pytest.approx((right, down), abs=0.3)


def test_a_blank_picture_lies_nowhere():
    blank = np.full((PICTURE_EDGE, PICTURE_EDGE), 0.5, np.float32)
    assert moved_by(blank, blank) == (0.0, 0.0)


def test_features_are_sketched_the_same_way_every_time_on_any_grid():
    look = drawn(0).appearance
    features = Features((torch.randn(1, 32, 20, 12, generator=torch.Generator().manual_seed(0)),))
    first, second = see(features, look), see(features, look)
    assert first.sketch.shape == (16, 16, 4)
    np.testing.assert_array_equal(first.sketch, second.sketch)
    assert see(Features((torch.zeros(1, 7, 9, 5),)), look).sketch.shape == (7, 9, 4)


def test_a_cell_where_all_parts_agree_does_not_outweigh_the_others():
    sights = [drawn(seed) for seed in range(6)]
    same = [replace(one, sketch=np.where(np.arange(4) < 4, one.sketch, 0)) for one in sights]
    for one in same:
        one.sketch[0, 0] = 1.0
    assert expect(same).sketch_spread.min() >= np.median(expect(same).sketch_spread) / 2 - 1e-9
