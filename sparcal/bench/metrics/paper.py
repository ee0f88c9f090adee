"""The paper's three numbers: image AUROC, and AU-PRO at two limits, all exact."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from sparcal.bench.metrics.inputs import as_numbers
from sparcal.bench.metrics.ranking import auroc
from sparcal.bench.metrics.region_overlap import AuproAccumulator
from sparcal.errors import DataError, ShapeError
from sparcal.settings import in_short

METRICS = ("image_auroc", "aupro_0.3", "aupro_0.05")
LIMITS = (0.3, 0.05)  # of AU-PRO, in the order of METRICS


def paper_metrics(
    labels: ArrayLike,
    scores: ArrayLike | Tensor,
    regions: Iterable[tuple[NDArray[np.bool_], NDArray[np.float32]]] | None,
) -> dict[str, float]:
    """The paper's three numbers by name, 0 to 100.

    Args:
        regions: mask and map of every image, read one pair at a time; None where there are no masks, and no AU-PRO.
    """
    areas: tuple[float, ...] = (float("nan"),) * len(LIMITS)
    if regions is not None:
        accumulator = AuproAccumulator()
        for mask, score_map in _pairs(regions):
            accumulator.update(mask, score_map)
        if accumulator.images != (judged := as_numbers(labels).size):
            raise ShapeError(
                f"paper_metrics needs a mask and a map for each of {judged} images, got {accumulator.images}: pass None "
                "where there are no masks."
            )
        areas = accumulator.compute(LIMITS)
    return {name: 100 * value for name, value in zip(METRICS, (auroc(labels, scores), *areas), strict=True)}


def _pairs(regions: object) -> Iterator[tuple[Any, Any]]:
    expected = "paper_metrics needs a mask and a map of every image"
    if not isinstance(regions, Iterable) or isinstance(regions, Tensor | np.ndarray):
        raise DataError(f"{expected}, got {in_short(regions)}: pass pairs, or None where there are no masks.")
    for pair in regions:
        if not isinstance(pair, Sequence) or len(pair) != 2:
            raise DataError(f"{expected}, got {in_short(pair)} for one: pass pairs, or None where there are no masks.")
        yield pair[0], pair[1]
