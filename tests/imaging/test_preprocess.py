"""Preprocessing equals torchvision's pixel for pixel, and says truly where its pixels come from."""

import json

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image
from torchvision import transforms

from sparcal.errors import DataError
from sparcal.imaging import preprocess as module
from sparcal.imaging.preprocess import Geometry, Preprocess

SIZES = [(40, 60), (61, 43), (50, 50), (33, 90), (300, 257)]  # H, W
PLAIN = {"mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)}


def photo(h, w, seed=0):
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (h, w, 3), dtype=np.uint8))


def torchvision_input(image, *steps):
    normalise = transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    return transforms.Compose([*steps, transforms.ToTensor(), normalise])(image)


@pytest.mark.parametrize(("h", "w"), SIZES)
@pytest.mark.parametrize("resample", ["bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize("crop", [None, 28, 29, 32])
def test_shorter_side_and_centre_crop_equal_torchvision(h, w, resample, crop):
    mode = transforms.InterpolationMode[resample.upper()]
    steps = [transforms.Resize(32, interpolation=mode), *([transforms.CenterCrop(crop)] if crop else [])]
    pixels, geometry = Preprocess(32, crop=crop, resample=resample)(photo(h, w))
    assert torch.equal(pixels, torchvision_input(photo(h, w), *steps))
    assert geometry.input == pixels.shape[1:]
    assert geometry.native == (h, w)


@pytest.mark.parametrize(("h", "w"), SIZES)
def test_square_equals_torchvision(h, w):
    mode = transforms.InterpolationMode.BICUBIC
    pixels, geometry = Preprocess(37, "square", resample="bicubic")(photo(h, w))
    assert torch.equal(pixels, torchvision_input(photo(h, w), transforms.Resize((37, 37), interpolation=mode)))
    assert geometry == Geometry((h, w), (37, 37), (0.0, 0.0, float(h), float(w)), (0, 0, 37, 37))


def test_padding_centres_the_image_and_is_zero():
    pixels, geometry = Preprocess(32, "pad")(photo(40, 80))
    wide, _ = Preprocess(16)(photo(40, 80))
    assert torch.equal(pixels[:, 8:24], wide)
    assert pixels[:, :8].count_nonzero() == pixels[:, 24:].count_nonzero() == 0
    assert geometry == Geometry((40, 80), (32, 32), (0.0, 0.0, 40.0, 80.0), (8, 0, 24, 32))


def test_padding_then_crop_records_what_is_left():
    pixels, geometry = Preprocess(32, "pad", crop=20)(photo(40, 80))
    full, _ = Preprocess(32, "pad")(photo(40, 80))
    assert torch.equal(pixels, full[:, 6:26, 6:26])
    assert geometry == Geometry((40, 80), (20, 20), (0.0, 15.0, 40.0, 65.0), (2, 0, 18, 20))


def test_multiple_cuts_the_right_and_bottom():
    pixels, geometry = Preprocess(45, multiple=14)(photo(90, 120))
    full, _ = Preprocess(45)(photo(90, 120))
    assert torch.equal(pixels, full[:, :42, :56])
    assert geometry == Geometry((90, 120), (42, 56), (0.0, 0.0, 84.0, 112.0), (0, 0, 42, 56))


def test_crop_rectangle_uses_the_true_scale_of_each_axis():
    _, geometry = Preprocess(256, crop=224)(photo(1056, 4224))
    assert geometry.covered == pytest.approx((66.0, 1650.0, 990.0, 2574.0))  # scale 4.125; crop starts at 16 and 400
    _, geometry = Preprocess(256, crop=224)(photo(300, 401))  # 401 becomes 342, not 342.19
    assert geometry.covered[1::2] == pytest.approx((59 * 401 / 342, 283 * 401 / 342))


def test_scale_and_channel_order():
    image = photo(8, 8)
    raw = torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1).float()
    pixels, _ = Preprocess(8, scale=1.0, **PLAIN)(image)
    assert torch.equal(pixels, raw)
    pixels, _ = Preprocess(8, scale=1.0, order="bgr", mean=(1.0, 2.0, 3.0), std=(1.0, 2.0, 4.0))(image)
    assert torch.equal(pixels, (raw.flip(0) - torch.tensor([1.0, 2, 3])[:, None, None])
                       / torch.tensor([1.0, 2, 4])[:, None, None])  # fmt: skip


def test_exif_orientation_of_an_unread_image_is_applied():
    image = photo(20, 30)
    image.getexif()[274] = 6
    image.info["exif"] = image.getexif().tobytes()
    _, geometry = Preprocess(16)(image)
    assert geometry.native == (30, 20)


@given(
    h=st.integers(1, 90),
    w=st.integers(1, 90),
    size=st.integers(1, 64),
    crop=st.none() | st.integers(1, 64),
    multiple=st.integers(1, 16),
    resize=st.sampled_from(["short", "square", "pad"]),
)
def test_geometry_is_consistent_for_every_rule(h, w, size, crop, multiple, resize):
    crop = None if crop is None else min(crop, size)
    assume(resize != "pad" or size * min(h, w) >= 2 * max(h, w))  # thinner ones have a test of their own
    rule = Preprocess(size, resize, crop, min(multiple, crop or size), **PLAIN)
    white = Image.new("RGB", (w, h), (255, 255, 255))
    pixels, geometry = rule(white)
    top, left, bottom, right = geometry.valid
    assert pixels.dtype == torch.float32
    assert pixels.is_contiguous()
    assert tuple(pixels.shape) == (3, *geometry.input)
    assert rule.output_size in {None, geometry.input}
    assert all(side % rule.multiple == 0 for side in geometry.input)
    assert 0 <= top < bottom <= geometry.input[0]
    assert 0 <= left < right <= geometry.input[1]
    shows = torch.zeros(geometry.input)
    shows[top:bottom, left:right] = 1
    assert torch.equal(pixels, shows.expand(3, -1, -1))  # the valid part is the image, the rest padding
    assert -1e-9 <= geometry.covered[0] < geometry.covered[2] <= h + 1e-9
    assert -1e-9 <= geometry.covered[1] < geometry.covered[3] <= w + 1e-9
    assert Geometry.from_json(json.loads(json.dumps(geometry.to_json()))) == geometry


def test_output_size():
    assert Preprocess(256).output_size is None
    assert Preprocess(256, crop=224).output_size == (224, 224)
    assert Preprocess(300, "square", multiple=14).output_size == (294, 294)
    assert Preprocess(300, "pad", crop=100, multiple=14).output_size == (98, 98)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"resize": "long"}, r"Preprocess\.resize must be one of short, square, pad, got 'long'\."),
        ({"resample": "nearest"}, r"Preprocess\.resample must be one of bilinear, bicubic, lanczos, got 'nearest'\."),
        ({"order": "grb"}, r"Preprocess\.order must be one of rgb, bgr, got 'grb'\."),
        ({"size": 0}, r"Preprocess\.size must be a whole number of at least 1, got 0\."),
        ({"size": 2.5}, r"Preprocess\.size must be a whole number of at least 1, got 2\.5\."),
        ({"multiple": 0}, r"Preprocess\.multiple must be a whole number of at least 1, got 0\."),
        ({"crop": 0}, r"Preprocess\.crop must be a whole number of at least 1 or None, got 0\."),
        ({"crop": 257}, r"Preprocess\.crop must be at most size, got crop 257 of size 256: raise size\."),
        ({"crop": 10, "multiple": 14}, r"Preprocess\.multiple must be at most the input size 10, got 14\."),
        (
            {"mean": (0.5, 0.5)},
            r"Preprocess\.mean must be a tuple of 3 finite numbers, got \(0\.5, 0\.5\): give one per channel",
        ),
        ({"mean": (0.5, 0.5, float("nan"))}, r"Preprocess\.mean must be a tuple of 3 finite numbers"),
        ({"std": (0.5, 0.5, 0.0)}, r"Preprocess\.std must be a tuple of 3 finite numbers above 0"),
        ({"scale": 0.0}, r"Preprocess\.scale must be a finite number above 0, got 0\.0\."),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(options, sentence):
    with pytest.raises(DataError, match=sentence):
        Preprocess(**options)


def test_an_image_that_would_explode_is_refused(monkeypatch):
    monkeypatch.setattr(module, "MAX_PIXELS", 10_000)
    with pytest.raises(DataError, match=r"must have at most 10000 pixels, got 2 x 20 growing to 100 x 1000: use"):
        Preprocess(100)(photo(2, 20))


def test_a_sliver_that_is_cropped_away_is_refused():
    with pytest.raises(
        DataError, match=r"more than a line of pixels after resizing, got 1 pixels shrinking to 1, which"
    ):
        Preprocess(4, "pad", crop=1)(photo(1, 8))


def test_bad_geometry_json_is_refused():
    with pytest.raises(DataError, match=r"needs native .* got .*: pass what to_json wrote"):
        Geometry.from_json({"native": [1, 2]})
    with pytest.raises(DataError, match="needs native"):
        Geometry.from_json({"native": [1, 2], "input": [1, 2, 3], "covered": [0] * 4, "valid": [0] * 4})
