"""Random grids of features that lie off the origin, as an encoder's do."""

from __future__ import annotations

import torch


def random_features(seed: int, n: int, h: int = 3, w: int = 4, d: int = 24, scale: float = 1.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(n, h, w, d, generator=generator) + 3.0
