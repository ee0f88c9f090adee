"""MuSc against a plain cdist version, one thread each.

The first row is a lot of 60 images of 16 x 16 cells x 384 channels with 4 layers and 3 radii. The second is a larger
lot with `memory` far below what its distances take: it shows that extra memory follows the features, of which it
copies one layer, and not the square of the lot. The plain version is the authors' way: unfold the neighbourhoods, one
`torch.cdist` from each image to all others, the minimum per image.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import layer_norm, normalize, unfold

from sparcal.detectors.musc import MuSc
from sparcal.types import Features
from speed.measure import Goal, Row, Work, measure

SIDE, CHANNELS = 16, 384
INTERVAL = 0.3
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Setting:
    """One lot and how it is scored."""

    images: int
    layers: int
    radii: tuple[int, ...]
    memory: int
    goal: float

    @property
    def path(self) -> str:
        limit = "" if self.memory >= 2**30 else f", memory={self.memory // 2**20} MiB"
        many = f"{self.layers} layers, {len(self.radii)} radii" if self.layers > 1 else "1 layer, 1 radius"
        return f"MuSc, {self.images} x {SIDE} x {SIDE} x {CHANNELS}, {many}{limit}"


SPEED = Setting(images=60, layers=4, radii=(1, 3, 5), memory=2**30, goal=3.0)
BOUND = Setting(images=90, layers=1, radii=(1,), memory=2**20, goal=1.0)
QUICK = Setting(images=12, layers=2, radii=(1, 3), memory=2**30, goal=1.0)


def lot(images: int, layers: int) -> Features:
    """Images that share a mean at every cell, as parts of one kind do."""
    random = torch.Generator().manual_seed(0)
    shape = (SIDE, SIDE, CHANNELS)
    means = [torch.randn(shape, generator=random) for _ in range(layers)]
    return Features(tuple(torch.randn(images, *shape, generator=random).add_(mean) for mean in means))


def ours(images: int, layers: int, radii: list[int], memory: int) -> Work:
    detector = MuSc(radii=tuple(radii), interval=INTERVAL, rscin=False, memory=memory)
    detector.score(lot(8, 1))
    features = lot(images, layers)
    return Work(lambda: detector.score(features).cell)


def plain(images: int, layers: int, radii: list[int]) -> Work:
    def run(features: Features) -> Tensor:
        scores = [plain_scores(plain_tokens(level, radius)) for level in features.levels for radius in radii]
        return (sum(scores[1:], scores[0]) / len(scores)).view(-1, SIDE, SIDE)

    run(lot(8, 1))
    features = lot(images, layers)
    return Work(lambda: run(features))


def plain_tokens(level: Tensor, radius: int) -> Tensor:
    tokens = []
    for x in level:
        whole = layer_norm(x, x.shape).permute(2, 0, 1)[None]
        windows = unfold(whole, radius, padding=radius // 2).view(CHANNELS, radius**2, SIDE * SIDE)
        tokens.append(normalize(windows.mean(dim=1).T, dim=1))
    return torch.stack(tokens)


def plain_scores(tokens: Tensor) -> Tensor:
    n, p, _ = tokens.shape
    scores = torch.empty(n, p)
    for i in range(n):
        nearest = torch.cdist(tokens[i], tokens.flatten(0, 1)).view(p, n, p).amin(dim=2)
        others = torch.cat([nearest[:, :i], nearest[:, i + 1 :]], dim=1)
        scores[i] = others.topk(int(INTERVAL * (n - 1)), dim=1, largest=False).values.mean(dim=1)
    return scores


def row(setting: Setting) -> Row:
    lot_size, radii = (setting.images, setting.layers), list(setting.radii)
    mine, cells = measure(ours, *lot_size, radii, setting.memory, repeats=1)
    peer, expected = measure(plain, *lot_size, radii, repeats=1)
    difference = float(np.abs(cells - expected).max())
    held = setting.images * setting.layers * SIDE * SIDE * CHANNELS * 4 / 2**20
    memory = ""
    if mine.extra_mb is not None and peer.extra_mb is not None:
        memory = f"Memory beside {held:.0f} MB of features: {mine.extra_mb:.0f} MB against {peer.extra_mb:.0f}."
    return Row(
        path=setting.path,
        peer="torch.cdist per image",
        ours=mine,
        theirs=peer,
        measured=peer.cpu_s / mine.cpu_s,
        goal=Goal(setting.goal, "less CPU time"),
        agree=difference <= TOLERANCE,
        agreement=f"cell scores differ by {difference:.0e} at most",
        note=memory,
    )


def rows(*, quick: bool = False) -> list[Row]:
    """The rows of the speed table."""
    return [row(QUICK)] if quick else [row(SPEED), row(BOUND)]
