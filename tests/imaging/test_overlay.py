"""Maps in colours over their photographs."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from sparcal.errors import DataError, ShapeError
from sparcal.imaging.overlay import overlay


def test_overlay_blends_turbo_on_one_scale():
    image = np.full((4, 6, 3), 100, dtype=np.uint8)
    heat = np.linspace(-1, 3, 24).reshape(4, 6)
    alone = overlay(image, heat, low=0.0, high=2.0, opacity=1.0)
    table = cv2.applyColorMap(np.arange(256, dtype=np.uint8)[None], cv2.COLORMAP_TURBO)[0, :, ::-1]
    level = np.rint(np.clip(heat / 2, 0, 1) * 255).astype(int)
    np.testing.assert_array_equal(alone, table[level])
    np.testing.assert_array_equal(overlay(image, heat, low=0.0, high=2.0, opacity=0.0), image)
    half = overlay(image, heat, low=0.0, high=2.0)
    assert half.dtype == np.uint8
    assert np.abs(half - (50 + table[level] / 2)).max() <= 0.5


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({"image": np.zeros((4, 5), np.uint8)}, ShapeError, r"overlay needs a uint8 image \(H, W, 3\)"),
        ({"image": np.zeros((4, 5, 3), np.float32)}, ShapeError, "got float32"),
        ({"heat": np.zeros((5, 4))}, ShapeError, r"and \(5, 4\)"),
        ({"high": 0.0}, DataError, r"overlay needs finite low < high, got 0\.0 and 0\.0: widen the colour scale"),
        ({"high": float("inf")}, DataError, "needs finite low < high"),
        ({"opacity": 2.0}, DataError, r"needs an opacity between 0 and 1, got 2\.0"),
    ],
)
def test_bad_overlays_are_refused(change, error, sentence):
    options = {"image": np.zeros((4, 5, 3), np.uint8), "heat": np.zeros((4, 5)), "low": 0.0, "high": 1.0, **change}
    with pytest.raises(error, match=sentence):
        overlay(options.pop("image"), options.pop("heat"), **options)
