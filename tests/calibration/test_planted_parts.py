"""Planted defects on parts, encoded: which part has which, where its cells are, how large it is."""

from __future__ import annotations

import weakref

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from sparcal.calibration import planted_parts
from sparcal.calibration.planted import draw_defects, plant
from sparcal.calibration.planted_parts import cells_of, extent, plant_on
from sparcal.errors import DataError
from sparcal.imaging.preprocess import Geometry
from tests.support.tiny_station import TinyEncoder, demo, pictures

IMAGES = pictures(demo().train[:3])


def test_defects_go_on_the_parts_in_turn_and_each_is_encoded_as_it_is_drawn():
    parts = plant_on(TinyEncoder(), IMAGES, outline=None, n=8, seed=3)
    assert len(parts) == 12
    assert parts.defects == tuple(draw_defects(8, 3))
    assert parts.part == (0, 1, 2) * 4
    assert [parts.on(j) for j in range(3)] == [[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8, 11]]
    encoder = TinyEncoder()
    for number, defect in enumerate(parts.defects):
        image, mask = plant(IMAGES[parts.part[number]], defect)
        pixels, geometry = encoder.preprocess(Image.fromarray(image))
        assert torch.equal(parts.features.levels[0][number], encoder(pixels[None]).levels[0][0])
        assert parts.pixels[number] == max(extent(mask), 1.0)
        assert np.array_equal(parts.cells[number].numpy(), cells_of(mask, geometry, (8, 8)))
        assert parts.geometries[number] == geometry


def test_some_defects_alone_are_those_defects():
    parts = plant_on(TinyEncoder(), IMAGES, outline=None, n=8, seed=3)
    numbers = parts.lying_on({0, 2})
    assert numbers == [0, 2, 3, 5, 6, 8, 9, 11]
    few = parts[numbers]
    assert few.part == (0, 2) * 4
    assert (few.defects, few.pixels, few.geometries, few.crops) == tuple(
        tuple(each[number] for number in numbers)
        for each in (parts.defects, parts.pixels, parts.geometries, parts.crops)
    )
    assert torch.equal(few.features.levels[0], parts.features.levels[0][numbers])
    assert torch.equal(few.cells, parts.cells[numbers])
    assert few.on(2) == [1, 3, 5, 7]
    assert parts.lying_on({7}) == list(range(12)), "where none lies there, all count"


def test_one_photograph_is_held_after_the_other(monkeypatch):
    """Those of a line camera take 70 MB each."""
    seen = []

    def planted(image, defect, outline):
        if not any(one() is image for one in seen):
            seen.append(weakref.ref(image))
        assert sum(one() is not None for one in seen) <= 2
        return plant(image, defect, outline)

    monkeypatch.setattr(planted_parts, "plant", planted)
    plant_on(TinyEncoder(), [image.copy() for image in IMAGES] * 2, outline=None, n=16)
    assert len(seen) == 6, "each is opened once"


def test_threads_and_seeds():
    one, many = (plant_on(TinyEncoder(), IMAGES, outline=None, n=6, workers=workers) for workers in (1, 3))
    assert torch.equal(one.features.levels[0], many.features.levels[0])
    other = plant_on(TinyEncoder(), IMAGES, outline=None, n=6, seed=1)
    assert not torch.equal(one.features.levels[0], other.features.levels[0])


def test_the_outline_is_kept_to():
    outline = np.zeros((8, 8), bool)
    outline[:4] = True
    parts = plant_on(TinyEncoder(), IMAGES, outline=outline, n=20)
    tiny = [number for number, one in enumerate(parts.defects) if one.size < 0.05]
    assert tiny
    assert not parts.cells[tiny][:, 6:].any()


def test_no_part_to_plant_on():
    with pytest.raises(DataError, match="Planted defects need at least one good part to lie on, got none: show some"):
        plant_on(TinyEncoder(), [], outline=None)


def test_cells_of_a_mask_on_an_image_that_was_resized_and_padded():
    # Native 40 x 60 is shown in the upper 64 x 96 of an input of 96 x 96; cells are 8 x 8 input pixels.
    geometry = Geometry((40, 60), (96, 96), (0.0, 0.0, 40.0, 60.0), (0, 0, 64, 96))
    mask = np.zeros((40, 60), bool)
    mask[39, 59] = mask[0, 0] = mask[20, 30] = True
    cells = cells_of(mask, geometry, (12, 12))
    assert sorted(map(tuple, np.argwhere(cells).tolist())) == [(0, 0), (4, 6), (7, 11)]


def test_what_the_encoder_does_not_see_has_no_cell():
    cropped = Geometry((40, 40), (32, 32), (10.0, 10.0, 30.0, 30.0), (0, 0, 32, 32))
    mask = np.zeros((40, 40), bool)
    mask[2, 2] = mask[35, 20] = True
    assert not cells_of(mask, cropped, (4, 4)).any()
    mask[10, 29] = True
    assert np.argwhere(cells_of(mask, cropped, (4, 4))).tolist() == [[0, 3]]
    assert not cells_of(np.zeros((40, 40), bool), cropped, (4, 4)).any()


@given(st.lists(st.tuples(st.integers(0, 19), st.integers(0, 29)), max_size=8))
def test_the_extent_is_the_longer_side_of_the_box(points):
    mask = np.zeros((20, 30), bool)
    for y, x in points:
        mask[y, x] = True
    sides = [max(p[axis] for p in points) - min(p[axis] for p in points) + 1 for axis in (0, 1)] if points else [0]
    assert extent(mask) == max(sides)
