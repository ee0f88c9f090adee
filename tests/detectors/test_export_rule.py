"""What every exportable detector offers, and the projection that their graphs share."""

from __future__ import annotations

import pytest
import torch

from sparcal.detectors import DETECTORS, SPADE, AnomalyDINO, MuSc, PaDiM, PatchCore, SubspaceAD, detector_facts
from sparcal.detectors.export_rule import is_exportable, remove_directions
from sparcal.errors import NotFittedError
from sparcal.testing import normal_features


def test_removing_is_the_projection_of_each_cell():
    random = torch.Generator().manual_seed(0)
    f, basis = torch.randn(2, 3, 4, 5, generator=random), torch.randn(3, 4, 2, 5, generator=random)
    out = remove_directions(f, basis)
    for i in range(2):
        for y in range(3):
            for x in range(4):
                v = basis[y, x]
                torch.testing.assert_close(out[i, y, x], f[i, y, x] - v.T @ (v @ f[i, y, x]))


def test_who_can_be_exported():
    exportable = {name for name in DETECTORS if detector_facts(name).exportable}
    assert exportable == {"anomalydino", "padim", "patchcore", "subspacead"}
    assert is_exportable(PatchCore())
    assert not is_exportable(MuSc())
    assert not is_exportable(SPADE())


@pytest.mark.parametrize("detector", [AnomalyDINO(), PaDiM(), PatchCore(), SubspaceAD()])
def test_the_state_has_the_shapes_that_the_rule_names(detector):
    with pytest.raises(NotFittedError, match=f"{type(detector).__name__} must be fitted"):
        detector.export_state()
    detector.fit(normal_features((4, 5, 6))(8, 0))
    tensors, shapes = detector.export_state(), detector.export_rule().shapes(4, 5, 6)
    assert tensors.keys() == shapes.keys()
    for name, shape in shapes.items():
        assert tensors[name].ndim == len(shape)
        assert all(isinstance(a, str) or a == b for a, b in zip(shape, tensors[name].shape, strict=True)), name
