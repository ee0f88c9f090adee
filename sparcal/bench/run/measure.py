"""Scores of evaluated images to the paper's three numbers, and the maps behind a figure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sparcal.bench.datasets import Record, read_mask
from sparcal.bench.metrics import AuproAccumulator, auroc
from sparcal.imaging.maps import MapRule, native_map, outside_value
from sparcal.imaging.preprocess import Geometry
from sparcal.types import Scores

METRICS = ("image_auroc", "aupro_0.3", "aupro_0.05")
LIMITS = (0.3, 0.05)

Metrics = dict[str, float]


def measure(records: Sequence[Record], scores: Scores, geometries: Sequence[Geometry], map_rule: MapRule) -> Metrics:
    """Image AUROC and AU-PRO at native resolution, 0 to 100; NaN where a number is not defined.

    Images without any mask among them (one's own folder) have no AU-PRO.
    """
    image = auroc([record.label for record in records], scores.image.numpy())
    areas = (float("nan"),) * len(LIMITS)
    if any(record.mask for record in records):
        accumulator = AuproAccumulator()
        outside = outside_value(scores.cell)
        for record, cell, geometry in zip(records, scores.cell, geometries, strict=True):
            mask = read_mask(record, geometry.native)
            accumulator.update(mask, native_map(cell, map_rule, geometry, outside=outside))
        areas = accumulator.compute(LIMITS)
    return {name: 100 * value for name, value in zip(METRICS, (image, *areas), strict=True)}


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
