"""The remembering encoder of the studies: the same features, encoded once."""

from __future__ import annotations

import torch

from sparcal.types import Encoder
from speed.studies.remember import RememberingEncoder
from tests.support.tiny_station import SIZE, TinyEncoder


def test_it_gives_what_the_encoder_gives_and_asks_once() -> None:
    plain = TinyEncoder()
    remembering = RememberingEncoder(plain)
    assert isinstance(remembering, Encoder)
    assert (remembering.id, remembering.preprocess, remembering.cell_pixels) == (
        plain.id,
        plain.preprocess,
        plain.cell_pixels,
    )
    pixels = torch.rand(3, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    first = [remembering(pixels[i : i + 1]) for i in range(3)]
    calls = plain.calls
    again = [remembering(pixels[i : i + 1].clone()) for i in range(3)]
    assert plain.calls == calls
    for a, b, direct in zip(first, again, (plain(pixels[i : i + 1]) for i in range(3)), strict=True):
        assert torch.equal(a.levels[0], b.levels[0])
        assert torch.equal(a.levels[0], direct.levels[0])
    remembering.forget()
    calls = plain.calls
    remembering(pixels[:1])
    assert plain.calls == calls + 1
