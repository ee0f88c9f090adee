"""Images become features in order, whatever the batch, and what cannot be used is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from sparcal.errors import DataError
from sparcal.imaging.encode import encode
from sparcal.imaging.preprocess import Preprocess
from sparcal.types import Encoder, Features
from tests.imaging.conftest import picture


def names(paths):
    return [path.name for path in paths]


class MeanColour:
    """An encoder whose single cell is the mean of the input, so that rows can be traced to their image."""

    id = "mean-colour"
    cell_pixels = 8
    preprocess = Preprocess(16, "square", mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0), scale=1.0)

    def __init__(self, *, cls=False):
        self.cls = cls
        self.batches = []

    def __call__(self, pixels):
        assert torch.is_inference_mode_enabled()
        self.batches.append(len(pixels))
        cells = pixels.mean((2, 3))
        return Features(
            (cells[:, None, None, :], cells[:, None, None, :1].repeat(1, 2, 2, 1)), cells if self.cls else None
        )


@pytest.mark.parametrize("batch_size", [1, 3, 64])
@pytest.mark.parametrize("cls", [False, True])
def test_encode_gives_features_in_order(folder, batch_size, cls):
    encoder = MeanColour(cls=cls)
    assert isinstance(encoder, Encoder)
    calls = []
    result = encode(encoder, folder, batch_size=batch_size, progress=lambda done, total: calls.append((done, total)))
    values = torch.arange(10.0) * 20
    assert result.features.grids == ((1, 1, 3), (2, 2, 1))
    assert torch.equal(result.features.levels[0][:, 0, 0, 0], values)
    assert torch.equal(result.features.levels[1][:, 1, 1, 0], values)
    if cls:
        assert torch.equal(result.features.cls, values[:, None].expand(-1, 3))
    else:
        assert result.features.cls is None
    assert names(result.paths) == [f"part_{number}.png" for number in range(10)]
    assert len(result.geometries) == 10
    assert len(result.failures) == 3
    assert calls == [(min(done, 13), 13) for done in range(batch_size, 13 + batch_size, batch_size)]
    assert not result.features.levels[0].is_inference()
    assert 0 not in encoder.batches


def test_encode_takes_images_in_memory(folder):
    values = [picture(30), Image.fromarray(picture(60)), (folder / "part_6.png").read_bytes(), folder / "part_9.png"]
    result = encode(MeanColour(), values)
    assert result.features.levels[0][:, 0, 0, 2].tolist() == [30, 60, 120, 180]
    assert result.paths == [Path("image-0"), Path("image-1"), Path("image-2"), folder / "part_9.png"]
    stack = encode(MeanColour(), np.stack([picture(1), picture(2)]))
    assert stack.features.levels[0][:, 0, 0, 0].tolist() == [1, 2]
    for one in (picture(5), Image.fromarray(picture(5)), (folder / "part_0.png").read_bytes()):
        assert len(encode(MeanColour(), one).features) == 1


def test_bad_images_in_memory_are_failures():
    result = encode(MeanColour(), [picture(3).astype(np.float32), picture(3)])
    assert result.paths == [Path("image-1")]
    assert "uint8 or uint16" in result.failures[0].reason


def test_encode_refuses_when_nothing_is_usable(folder):
    bad = [folder / "part_0b.png", folder / "part_4b.jpg"]
    with pytest.raises(DataError, match=r"at least one usable image, got 2 that failed, the first because: .*part_0b"):
        encode(MeanColour(), bad)
    with pytest.raises(DataError, match="needs at least one image, got an empty sequence"):
        encode(MeanColour(), [])
