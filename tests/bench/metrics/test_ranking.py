"""Image AUROC against scikit-learn's, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from sparcal.bench.metrics.ranking import auroc
from sparcal.errors import DataError, ShapeError


@settings(deadline=None)  # the first call imports scipy.stats
@given(st.lists(st.tuples(st.booleans(), st.integers(-4, 4)), min_size=2, max_size=60))
def test_auroc_equals_scikit_learn_with_ties(pairs: list[tuple[bool, int]]) -> None:
    labels, scores = [int(p[0]) for p in pairs], [p[1] / 3 for p in pairs]
    if len(set(labels)) == 1:
        assert math.isnan(auroc(labels, scores))
    else:
        assert auroc(labels, scores) == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)


def test_auroc_keeps_large_scores_apart_and_takes_tensors() -> None:
    # A float32 sigmoid, as some metric libraries apply it to scores outside [0, 1], would make ties of these.
    scores = torch.tensor([40.0, 41.0, 42.0, 43.0], requires_grad=True)
    assert auroc(torch.tensor([False, False, True, True]), scores) == 1.0
    assert auroc(torch.tensor([0, 1, 0, 1]), scores.to(torch.bfloat16)) == 0.75


def test_auroc_ranks_infinite_scores() -> None:
    assert auroc([0, 0, 1, 1], [-math.inf, 0.0, 1.0, math.inf]) == 1.0


@pytest.mark.parametrize("labels", [[0, 0], [1, 1], []])
def test_auroc_is_undefined_without_both_classes(labels: list[int]) -> None:
    assert math.isnan(auroc(labels, np.arange(len(labels))))


@pytest.mark.parametrize(
    ("labels", "scores", "error", "message"),
    [
        ([0, 1, 1], [0.1, math.nan, math.nan], DataError, r"auroc scores must be numbers, got 2 NaN among 3: find"),
        ([0, 1], [0.1, 0.2, 0.3], ShapeError, r"one label and one score per image, got shapes \(2,\) and \(3,\): pass"),
        ([[0, 1]], [[0.1, 0.2]], ShapeError, r"got shapes \(1, 2\) and \(1, 2\)"),
        ([0, 2], [0.1, 0.2], DataError, r"auroc labels must hold only 0 and 1, got 2: pass"),
        (["good", "bad"], [0.1, 0.2], DataError, r"must be numeric, got dtype <U4: convert"),
    ],
)
def test_auroc_rejects(labels: list[int], scores: list[float], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        auroc(labels, scores)


# ------------------------------------------------------------------------------------------------ AU-PRO
