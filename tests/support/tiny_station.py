"""A station small enough for tests: rendered parts of 64 pixels and an encoder of a few lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

import torch
from torch.nn.functional import avg_pool2d

from sparcal.imaging.preprocess import Preprocess
from sparcal.rendering.parts import make_demo
from sparcal.types import Features

SIZE = 64


@dataclass
class TinyEncoder:
    """Brightness, colour and edges of 8 x 8 pixels, mixed at random; counts what it encodes."""

    id: str = "tiny?seed=0"
    cell_pixels: int = 8
    channels: int = 12
    calls: int = field(default=0, compare=False)

    @property
    def preprocess(self):
        return Preprocess(size=SIZE, resize="square")

    def __call__(self, pixels):
        self.calls += len(pixels)
        right, down = pixels.roll(1, 3) - pixels, pixels.roll(1, 2) - pixels
        values = torch.cat([pixels, right.abs(), down.abs(), pixels.square()], dim=1)
        cells = avg_pool2d(values, self.cell_pixels).permute(0, 2, 3, 1)
        mix = torch.randn(values.shape[1], self.channels, generator=torch.Generator().manual_seed(0))
        return Features((cells @ mix,))


@cache
def demo(shift="none", seed=0, train=24, good=24, bad=6):
    return make_demo(seed, train=train, good=good, bad=bad, shift=shift, size=SIZE)


def pictures(parts):
    return [part.image for part in parts]


def left_overs(path):
    """Hidden files below a station that no writer has in use."""
    return [p.name for p in path.rglob(".*") if p.name not in {".lock", ".fit.lock"}]
