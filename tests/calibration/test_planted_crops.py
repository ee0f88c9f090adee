"""Cut-outs: the defect lies inside its box, at native size where it fits, whatever corner it sits in."""

from __future__ import annotations

import numpy as np
import pytest

from sparcal.calibration.planted_crops import EDGE, crop_around


def spot(shape, top, left, size):
    image, mask = np.zeros((*shape, 3), np.uint8), np.zeros(shape, bool)
    mask[top : top + size, left : left + size] = True
    image[mask] = 255
    return image, mask


@pytest.mark.parametrize(("top", "left"), [(0, 0), (200, 310), (470, 590), (470, 0)])
def test_the_box_holds_the_defect_and_nothing_else(top, left):
    crop = crop_around(*spot((480, 600), top, left, 10))
    assert crop.pixels.shape == (EDGE, EDGE, 3)
    assert crop.scale == 1
    x, y, width, height = (round(share * EDGE) for share in crop.box)
    inside = crop.pixels[y : y + height, x : x + width]
    assert inside.size == crop.pixels[crop.pixels == 255].size == 10 * 10 * 3


def test_a_defect_that_is_larger_than_a_cut_out_is_shrunk():
    crop = crop_around(*spot((1000, 1000), 300, 300, 400))
    assert crop.pixels.shape == (EDGE, EDGE, 3)
    assert crop.scale == pytest.approx(EDGE / 520)
    assert crop.box[2:] == pytest.approx((400 / 520, 400 / 520))


def test_a_small_image_gives_half_of_itself_and_an_empty_mask_its_middle():
    assert crop_around(*spot((64, 80), 10, 10, 4)).pixels.shape == (32, 32, 3)
    image, mask = spot((64, 64), 0, 0, 0)
    image[32, 32] = 9
    assert crop_around(image, mask).pixels.max() == 9
