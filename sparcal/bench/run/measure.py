"""Turns scores of evaluated images into the paper's three numbers, and into the maps behind a figure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sparcal.bench.datasets import Record, read_mask
from sparcal.bench.metrics import paper_metrics
from sparcal.imaging.maps import MapRule, native_map, outside_value
from sparcal.imaging.preprocess import Geometry
from sparcal.types import Scores


def measure(
    records: Sequence[Record], scores: Scores, geometries: Sequence[Geometry], map_rule: MapRule
) -> dict[str, float]:
    """Image AUROC and AU-PRO at native resolution, 0 to 100; NaN where a number is not defined.

    A folder without a single mask, as people's own folders may be, has no AU-PRO.
    """
    outside = outside_value(scores.cell)
    regions = (
        (read_mask(record, geometry.native), native_map(cell, map_rule, geometry, outside=outside))
        for record, cell, geometry in zip(records, scores.cell, geometries, strict=True)
    )
    has_masks = any(record.mask for record in records)
    return paper_metrics([record.label for record in records], scores.image, regions if has_masks else None)


def example_image(records: Sequence[Record], geometries: Sequence[Geometry]) -> int:
    """Position of the category's example: lower median of the anomalous masks' areas, ties by ascending file name."""
    areas = [
        (int(read_mask(record, geometry.native).sum()), record.image.as_posix(), position)
        for position, (record, geometry) in enumerate(zip(records, geometries, strict=True))
        if record.label == 1
    ]
    return sorted(areas)[(len(areas) - 1) // 2][2]


def one_map(scores: Scores, position: int, geometry: Geometry, map_rule: MapRule) -> NDArray[np.float32]:
    """The native map of one image among those that were scored together."""
    return native_map(scores.cell[position], map_rule, geometry, outside=outside_value(scores.cell))
