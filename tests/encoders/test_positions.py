"""Position embeddings resized as DINOv2's authors do: against their formula written out, and inside a network."""

from __future__ import annotations

import numpy as np
import pytest
import timm
import torch

from sparcal.encoders import load_encoder
from sparcal.encoders.positions import resize_positions
from sparcal.errors import DataError
from sparcal.hosts import HOSTS

DINO = "timm:vit_small_patch14_dinov2.lvd142m?layers=11&aggregate=levels&norm=1&resize=square&size=56"


def cubic(x, a=-0.75):
    x = abs(x)
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def slow_row(values, new):
    """A line of numbers on `new` places: no antialiasing, places divided by (new + 0.1) / old."""
    old = len(values)
    out = []
    for i in range(new):
        place = (i + 0.5) * old / (new + 0.1) - 0.5
        first = int(np.floor(place))
        taps = [(values[min(max(first + j, 0), old - 1)], cubic(place - (first + j))) for j in (-1, 0, 1, 2)]
        out.append(sum(value * weight for value, weight in taps))
    return out


@pytest.mark.parametrize("new", [(5, 5), (9, 4), (3, 12)])
def test_the_offset_form_is_the_authors(new):
    table = torch.randn(1 + 7 * 7, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    resized = resize_positions(table, (7, 7), new, "bicubic-offset")
    grid = table[1:].reshape(7, 7, 3).numpy()
    for channel in range(3):
        columns = np.array([slow_row(grid[:, j, channel], new[0]) for j in range(7)]).T
        want = np.array([slow_row(line, new[1]) for line in columns])
        np.testing.assert_allclose(resized[1:, channel].reshape(new).numpy(), want, atol=1e-9)
    assert torch.equal(resized[0], table[0])
    assert torch.equal(resize_positions(table, (7, 7), (7, 7), "bicubic-offset"), table)


def test_a_network_uses_it_on_another_grid_and_only_there():
    pixels = torch.randn(1, 3, 56, 70, generator=torch.Generator().manual_seed(1))
    own, offset = (load_encoder(f"{DINO}{words}", weights="random:0") for words in ("", "&positions=bicubic-offset"))
    with torch.inference_mode():
        assert not torch.equal(own(pixels).levels[0], offset(pixels).levels[0])
        same = load_encoder(f"{DINO}&positions=bicubic-antialias", weights="random:0")
        torch.testing.assert_close(own(pixels).levels[0], same(pixels).levels[0])
    assert offset.id != own.id


def test_networks_with_another_table_are_refused():
    for name in ("vit_small_patch14_reg4_dinov2.lvd142m", "resnet18.a1_in1k"):
        assert timm.is_model(name.partition(".")[0])
        with pytest.raises(DataError, match="needs a timm vision transformer whose position table begins with a class"):
            load_encoder(f"timm:{name}?size=56&positions=bicubic-offset", weights="random:0")


def test_anomalydino_has_its_authors_positions():
    assert "positions=bicubic-offset" in HOSTS["anomalydino"].encoder
