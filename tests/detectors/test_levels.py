"""What detectors demand of features, and that half precision is widened once."""

from __future__ import annotations

import pytest
import torch

from sparcal.detectors.levels import at_least_float32, only_level, require_channels, scored_level
from sparcal.errors import ShapeError
from sparcal.types import Features


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
)
def test_half_precision_is_widened(given, expected):
    assert at_least_float32(torch.zeros(1, dtype=given)).dtype == expected
    assert only_level("X", Features((torch.zeros(1, 2, 2, 3, dtype=given),))).dtype == expected


def test_refusals_name_who_asks():
    level = torch.zeros(2, 2, 2, 3)
    with pytest.raises(ShapeError, match="X works on one grid of features, got 2 levels: use an encoder that joins"):
        only_level("X", Features((level, level)))
    with pytest.raises(ShapeError, match="X was fitted on features of 4 channels, got 3: encode with the encoder"):
        require_channels("X", level, 4)
    with pytest.raises(ShapeError, match="X scores one or more images, got 0"):
        scored_level("X", Features((level[:0],)), 3)
