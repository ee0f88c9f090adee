"""Features of parts of one drawing, made so that what a check should say is known."""

from __future__ import annotations

import torch

from sparcal.types import Features

H, W, D = 9, 12, 10


def random(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def parts(n, seed, spread=0.3):
    """A smooth pattern, and a little noise of each part's own."""
    rows, columns = torch.meshgrid(torch.arange(H) / H, torch.arange(W) / W, indexing="ij")
    waves = torch.stack([torch.sin(6 * rows + i) * torch.cos(5 * columns - i) for i in range(D)], dim=-1)
    return Features((2 * waves + spread * random(n, H, W, D, seed=seed),))


def maps(k, seed, spread=0.1):
    """(k, h, w): cell scores of k good parts whose logarithms differ by `spread`."""
    return (spread * random(k, H, W, seed=seed)).exp()


TRAIN = parts(30, 0)
