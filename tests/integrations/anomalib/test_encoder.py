"""Where an anomalib pre-processor looks, found by showing it images."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms.v2 import CenterCrop, Compose, Identity, Normalize, Pad, Resize

from sparcal.errors import DataError
from sparcal.integrations.anomalib import LotCalibrator
from sparcal.integrations.anomalib.encoder import find_geometry, to_pixels
from tests.support.anomalib_parts import padim

NORMAL = Normalize([0.4, 0.5, 0.6], [0.2, 0.25, 0.3])
CASES = [
    (Compose([Resize((64, 64), antialias=True), NORMAL]), (64, 64), (0, 0, 96, 120)),
    (Compose([Resize((80, 100)), CenterCrop((40, 60)), NORMAL]), (40, 60), (24, 24, 72, 96)),
    (Compose([Pad(12), NORMAL]), (120, 144), (-12, -12, 108, 132)),
    (Identity(), (96, 120), (0, 0, 96, 120)),
]


@pytest.mark.parametrize(("transform", "size", "covered"), CASES, ids=["resize", "crop", "pad", "none"])
def test_geometry(transform: object, size: tuple[int, int], covered: tuple[float, ...]) -> None:
    found = find_geometry(transform, (96, 120))  # type: ignore[arg-type]
    assert (found.native, found.input, found.valid) == ((96, 120), size, (0, 0, *size))
    assert found.covered == pytest.approx(covered, abs=0.1)


def test_transforms_that_lose_their_place_are_refused() -> None:
    flipped = Compose([lambda image: image.flip(-1), NORMAL])
    for transform in (flipped, lambda image: image * 0):
        with pytest.raises(DataError, match="needs a pre-processor that keeps them upright.*leave flips, turns"):
            find_geometry(transform, (96, 120))


def test_an_image_goes_the_way_of_anomalibs_engine() -> None:
    model = padim()
    encoder = LotCalibrator(model)._encoder
    pixels = np.random.default_rng(0).integers(0, 256, (50, 70, 3), np.uint8)
    prepared, geometry = encoder.preprocess(Image.fromarray(pixels))
    image = torch.from_numpy(pixels).permute(2, 0, 1)[None] / 255
    assert torch.equal(to_pixels(Image.fromarray(pixels)), image)
    assert torch.equal(prepared, model.pre_processor.transform(image)[0])
    assert geometry.native == (50, 70)
    assert encoder(prepared[None]).grids == ((8, 8, 20),)
    assert encoder.id == "anomalib:Padim"
