"""Image AUROC: how well scores put anomalous images before normal ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from sparcal.bench.metrics.inputs import as_binary, as_numbers
from sparcal.errors import DataError, ShapeError


def auroc(labels: ArrayLike | Tensor, scores: ArrayLike | Tensor) -> float:
    """Probability that an anomalous image scores above a normal one, ties counting half; nan if a class is empty.

    Args:
        labels: one 0 (normal) or 1 (anomalous) per image.
        scores: one number per image, larger is more anomalous; infinite ones rank last or first.

    >>> auroc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    """
    from scipy.stats import rankdata

    truth, values = as_numbers(labels), as_numbers(scores)
    if truth.ndim != 1 or truth.shape != values.shape:
        raise ShapeError(
            f"auroc needs one label and one score per image, got shapes {truth.shape} and {values.shape}: "
            "pass two sequences of the same length."
        )
    positive = as_binary(truth, "auroc labels")
    values = values.astype(np.float64)
    if np.isnan(values).any():
        raise DataError(
            f"auroc scores must be numbers, got {np.isnan(values).sum()} NaN among {len(values)}: "
            "find the images whose score is not a number."
        )
    n_positive = int(positive.sum())
    n_negative = len(positive) - n_positive
    if n_positive == 0 or n_negative == 0:
        return float("nan")
    rank_sum = float(rankdata(values)[positive].sum())
    return (rank_sum - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative)
