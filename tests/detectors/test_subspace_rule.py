"""A principal subspace in an exported graph, at its edge."""

from __future__ import annotations

import torch

from sparcal.detectors import SubspaceAD
from sparcal.types import Features


def test_a_subspace_of_no_dimension_removes_nothing():
    flat = torch.ones(3, 2, 2, 4)
    detector = SubspaceAD().fit(Features((flat,)))
    assert detector.rank_ == 0
    state = detector.export_state()
    assert state["pca_basis"].shape == (1, 4)
    _, cell, _ = detector.export_rule().score(flat + 2, state, lambda cells: cells)
    torch.testing.assert_close(cell, torch.full((3, 2, 2), 16.0))
