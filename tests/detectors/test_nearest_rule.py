"""Distances to a bank as an exported graph takes them, against the detectors."""

from __future__ import annotations

import pytest
import torch

from sparcal.detectors import AnomalyDINO, PatchCore
from sparcal.detectors.nearest_rule import NearestRule
from sparcal.errors import DataError
from sparcal.types import Features


def test_distances_survive_a_large_common_offset():
    """|a|^2 + |b|^2 - 2 a b alone would lose all digits here."""
    random = torch.Generator().manual_seed(0)
    bank = 1000 + torch.randn(50, 16, generator=random)
    level = (bank[:8] + 0.05 * torch.randn(8, 16, generator=random)).reshape(2, 2, 2, 16)
    detector = PatchCore(coreset=1.0).fit(Features((bank.reshape(1, 5, 10, 16),)))
    image, cell, _ = detector.export_rule().score(level, detector.export_state(), lambda cells: cells)
    expected = detector.score(Features((level,)))
    torch.testing.assert_close(cell, expected.cell, rtol=1e-3, atol=0)
    torch.testing.assert_close(image, expected.image, rtol=1e-3, atol=0)


def test_a_foreground_mask_is_refused():
    with pytest.raises(DataError, match="exported with mask='off', got mask='tokens'"):
        AnomalyDINO(mask="tokens").export_rule()


def test_a_bank_smaller_than_the_neighbours_is_refused():
    detector = PatchCore(coreset=1.0, neighbours=9).fit(Features((torch.randn(1, 2, 2, 3),)))
    with pytest.raises(DataError, match="PatchCore with 9 neighbours .* at least as many rows, got 4"):
        detector.export_state()


def test_the_rule_of_a_detector_says_what_it_does():
    assert AnomalyDINO(neighbours=3).export_rule() == NearestRule(3, squared=True, unit=True, top=0.01)
    assert PatchCore.anomalib().export_rule() == NearestRule(1, squared=False, reweight=9)


def test_the_bank_of_a_detector_stays_as_it_is():
    detector = PatchCore(coreset=1.0).fit(Features((5 + torch.randn(1, 2, 2, 3).double(),)))
    before = detector.bank_.clone()
    detector.export_state()
    assert torch.equal(detector.bank_, before)
