"""A self-test on rendered parts in which the larger and stronger defects are found, without a station behind it."""

from __future__ import annotations

import torch

from sparcal.calibration.held_out import HeldOut, PartScores
from sparcal.calibration.planted_parts import plant_on
from sparcal.calibration.self_test import self_test
from tests.support.tiny_station import TinyEncoder, demo, pictures


def made_up_test(n=28, threshold=200.0, before=None):
    """A test of n plain defects, whose score is size times contrast, and their cut-outs."""
    parts = plant_on(TinyEncoder(), pictures(demo().train[:4]), outline=None, n=n)
    strength = [pixels * one.contrast for pixels, one in zip(parts.pixels, parts.defects, strict=True)]
    scores = PartScores(torch.tensor(strength), torch.tensor(strength), parts.cells.float())
    tested = self_test(
        parts, HeldOut(scores, scores), thresholds=(threshold, threshold), floor=0.05, seed=0, before=before
    )
    return tested, parts.crops
