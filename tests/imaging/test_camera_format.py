"""Size and colour tell the calibrated camera from another."""

from __future__ import annotations

import numpy as np
from PIL import Image

from sparcal.imaging.camera_format import MANY_FORMATS, camera_format_of, other_camera_format


def picture(h, w, *, grey):
    pixels = np.zeros((h, w, 3), np.uint8)
    pixels[..., 0] = 0 if grey else 9
    return Image.fromarray(pixels)


def test_size_and_colour():
    assert camera_format_of(picture(4, 6, grey=True)) == (4, 6, True)
    assert camera_format_of(picture(4, 6, grey=False)) == (4, 6, False)


def test_another_camera_is_named():
    known = ((4, 6, False), (4, 6, True))
    assert other_camera_format("a.png", (4, 6, True), known) is None
    assert other_camera_format("a.png", (4, 7, True), known) == (
        "a.png must have 4 x 6 colour pixels or 4 x 6 grey pixels like the images of the calibration, "
        "got 4 x 7 grey pixels: check that it is from the same camera."
    )


def test_parts_cut_to_many_sizes_have_no_size_of_their_own():
    many = tuple((4, w, False) for w in range(MANY_FORMATS + 1))
    assert other_camera_format("a.png", (9, 9, False), many) is None
    assert other_camera_format("a.png", (9, 9, False), ()) is None
