"""The highest pixel of a map: what a pixel threshold is compared with."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from sparcal.imaging.maps import MapRule, input_map, native_map, outside_value
from sparcal.imaging.preprocess import Geometry


def peaks(cell: Tensor, rule: MapRule, geometries: Sequence[Geometry]) -> Tensor:
    """(n,): the highest pixel of each image's map."""
    if rule.at == "input":  # resizing to native pixels interpolates, so it reaches no higher
        return torch.cat([input_map(part, rule).flatten(1).amax(dim=1) for part in cell.split(16)])
    outside = outside_value(cell)
    maps = (native_map(x, rule, g, outside=outside).max() for x, g in zip(cell, geometries, strict=True))
    return torch.tensor([float(value) for value in maps], dtype=cell.dtype)


def peaks_on(cell: Tensor, rule: MapRule, where: Tensor) -> Tensor:
    """(n,): the highest pixel of each image's map within the cells (n, h, w) of its defect; minus infinity without any."""
    highest = []
    for maps, cells in zip(cell.split(16), where.split(16), strict=True):
        drawn = input_map(maps, rule)
        h, w = drawn.shape[1:]
        rows, columns = (torch.arange(size) * grid // size for size, grid in ((h, cells.shape[1]), (w, cells.shape[2])))
        on_defect = cells[:, rows][:, :, columns]
        highest.append(drawn.masked_fill(~on_defect, -torch.inf).flatten(1).amax(dim=1))
    return torch.cat(highest)
