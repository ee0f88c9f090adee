"""What an image looks like as a whole: each field says what its name says, and nothing else moves it."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from PIL import Image

from sparcal.imaging.appearance import FIELD_GRID, FIELDS, PICTURE_EDGE, appearance
from sparcal.imaging.preprocess import Preprocess
from sparcal.rendering.parts import TRAINING_LIGHT, render_part

RULE = Preprocess(size=128, resize="square")


@pytest.fixture(scope="module")
def part():
    return render_part(1, light=TRAINING_LIGHT, size=256).image


def seen(pixels, rule=RULE):
    tensor, geometry = rule(Image.fromarray(pixels))
    return appearance(tensor.numpy(), geometry, rule)


def changes(before, after):
    """The median change of each field."""
    moved = seen(after).fields - seen(before).fields
    return dict(zip(FIELDS, np.median(moved, axis=(1, 2)).tolist(), strict=True))


def test_shapes(part):
    found = seen(part)
    assert found.fields.shape == (4, FIELD_GRID, FIELD_GRID)
    assert found.picture.shape == (PICTURE_EDGE, PICTURE_EDGE)
    assert 0 <= found.picture.min() < found.picture.max() <= 1


def test_a_fifth_less_light_is_a_fifth_less_brightness_and_changes_no_colour(part):
    found = changes(part, np.round(part * 0.8).astype(np.uint8))
    assert found["brightness"] == pytest.approx(np.log(0.8), abs=0.03)
    assert found["warmth"] == pytest.approx(0, abs=0.02)
    assert found["tint"] == pytest.approx(0, abs=0.02)


def test_more_red_and_less_blue_is_warmer_and_more_green_is_tint(part):
    warm = np.clip(part * np.array([1.1, 1.0, 0.9]), 0, 255).astype(np.uint8)
    green = np.clip(part * np.array([0.95, 1.05, 0.95]), 0, 255).astype(np.uint8)
    assert changes(part, warm)["warmth"] > 0.1
    assert abs(changes(part, warm)["tint"]) < 0.04
    assert changes(part, green)["tint"] > 0.05


def test_a_lens_out_of_focus_is_less_sharp_and_as_bright(part):
    found = changes(part, cv2.GaussianBlur(part, (0, 0), 3))
    assert found["sharpness"] < -0.2
    assert abs(found["brightness"]) < 0.02


def test_channels_in_another_order_and_scale_and_padding_change_nothing(part):
    plain = seen(part)
    turned = seen(part, Preprocess(size=128, resize="square", order="bgr", scale=1.0))
    padded = seen(part, Preprocess(size=128, resize="pad"))
    np.testing.assert_allclose(turned.fields, plain.fields, atol=2e-3)
    np.testing.assert_allclose(padded.fields, plain.fields, atol=2e-3)
    wide = np.concatenate([part, part], axis=1)
    kept = seen(wide, Preprocess(size=128, resize="pad")).fields
    assert abs(float(np.median(kept[0]) - np.median(plain.fields[0]))) < 0.2, "padding is not part of the image"
