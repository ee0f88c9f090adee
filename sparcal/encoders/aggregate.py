"""From a network's layers to the grids that are corrected: each host's own aggregation, as a function each.

Layers come in as (n, c, h, w), finest first, as networks make them; grids leave as (n, h, w, d), channels last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, interpolate

from sparcal.errors import ShapeError

Layers = Sequence[Tensor]


def pool(layers: Layers) -> tuple[Tensor, ...]:
    """3x3 mean of each layer, bilinear to the finest grid, concatenated (anomalib's PatchCore form; any network)."""
    pooled = [avg_pool2d(x, 3, stride=1, padding=1) for x in layers]
    return (_channels_last(torch.cat([pooled[0], *(_to_grid(x, pooled[0], "bilinear") for x in pooled[1:])], dim=1)),)


def pool_nearest(layers: Layers) -> tuple[Tensor, ...]:
    """3x3 mean of each layer, nearest-neighbour to the finest grid, concatenated (FastRecon)."""
    pooled = [avg_pool2d(x, 3, stride=1, padding=1) for x in layers]
    return nearest_upsampled(pooled)


def patchcore(layers: Layers) -> tuple[Tensor, ...]:
    """The PatchCore authors' 1024-d descriptor, in closed form.

    Their unfold, adaptive pooling to 1024, stacking and pooling again amounts to this for 512 + 1024 channels: the
    finer layer's 3x3 sum plus its centre once more, over 10; and the coarser layer's 3x3 mean, bilinear to the finer
    grid, averaged over neighbouring channel pairs.
    """
    if len(layers) != 2 or (layers[0].shape[1], layers[1].shape[1]) != (512, 1024):
        got = " + ".join(str(x.shape[1]) for x in layers)
        raise ShapeError(
            f"The aggregate 'patchcore' is defined for two layers of 512 + 1024 channels (ResNet-50 family), got {got}: "
            "use aggregate=pool with this network."
        )
    fine, coarse = layers
    first = (9 * avg_pool2d(fine, 3, stride=1, padding=1) + fine) / 10
    second = _to_grid(avg_pool2d(coarse, 3, stride=1, padding=1), fine, "bilinear")
    return (_channels_last(torch.cat([first, second.unflatten(1, (-1, 2)).mean(dim=2)], dim=1)),)


def nearest_upsampled(layers: Layers) -> tuple[Tensor, ...]:
    """Nearest-neighbour to the finest grid, concatenated: nothing is averaged (PaDiM, the diagnostics)."""
    return (_channels_last(torch.cat([_to_grid(x, layers[0], "nearest") for x in layers], dim=1)),)


def levels(layers: Layers) -> tuple[Tensor, ...]:
    """Every layer as a grid of its own (SPADE, MuSc)."""
    return tuple(_channels_last(x) for x in layers)


def mean(layers: Layers) -> tuple[Tensor, ...]:
    """The mean of layers that share a grid and a width (SubspaceAD)."""
    shapes = {tuple(x.shape[1:]) for x in layers}
    if len(shapes) != 1:
        raise ShapeError(
            f"The aggregate 'mean' needs layers of one shape, got {sorted(shapes)}: use aggregate=pool with this network."
        )
    return (_channels_last(torch.stack(tuple(layers)).mean(dim=0)),)


AGGREGATES: dict[str, Callable[[Layers], tuple[Tensor, ...]]] = {
    "pool": pool,
    "pool-nearest": pool_nearest,
    "patchcore": patchcore,
    "nearest": nearest_upsampled,
    "levels": levels,
    "mean": mean,
}


def _to_grid(x: Tensor, like: Tensor, mode: str) -> Tensor:
    if x.shape[2:] == like.shape[2:]:
        return x
    return interpolate(x, size=like.shape[2:], mode=mode, align_corners=False if mode == "bilinear" else None)


def _channels_last(x: Tensor) -> Tensor:
    return x.permute(0, 2, 3, 1).contiguous()
