"""Points for searching and thinning: clusters with leading axes, and small grids full of ties."""

from __future__ import annotations

import torch
from hypothesis import strategies as st
from torch import Tensor

small_points = st.integers(1, 12).flatmap(
    lambda n: st.integers(1, 3).flatmap(
        lambda d: st.lists(st.lists(st.integers(-3, 3).map(float), min_size=d, max_size=d), min_size=n, max_size=n).map(
            torch.tensor
        )
    )
)


def clustered(n: int, d: int, seed: int) -> Tensor:
    """Points around a few centres, most of their spread along a few axes, far from the origin."""
    generator = torch.Generator().manual_seed(seed)
    spread = torch.arange(1, d + 1) ** -0.8
    centres = 3 * torch.randn(7, d, generator=generator) * spread
    noise = torch.randn(n, d, generator=generator) * spread
    return centres[torch.randint(7, (n,), generator=generator)] + noise + 10
