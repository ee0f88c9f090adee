"""Kept rows of a reference: whatever way a correction takes them, they come out as the whole reference would."""

from __future__ import annotations

import pytest
import torch

from sparcal.calibration.thin_reference import corrects_rows, thin_out
from sparcal.corrections import CORRECTIONS
from sparcal.score import reference_side
from sparcal.types import Features

H, W, D, IMAGES = 3, 4, 16, 9


def features(n: int, seed: int) -> Features:
    return Features((torch.randn(n, H, W, D, generator=torch.Generator().manual_seed(seed)),))


@pytest.mark.parametrize("name", sorted(CORRECTIONS))
def test_kept_rows_come_out_as_of_the_whole_reference(name):
    reference, normals = features(IMAGES, 0), features(4, 1)
    rows = torch.randperm(IMAGES * H * W, generator=torch.Generator().manual_seed(2))[:40]
    correction = CORRECTIONS[name]().fit(normals, reference)
    corrected, at, images = thin_out(reference, rows).corrected_by(correction)
    whole = reference_side(correction, reference).levels[0]
    torch.testing.assert_close(corrected.levels[0].flatten(0, 2)[at], whole.flatten(0, 2)[rows], rtol=1e-5, atol=1e-5)
    # What a correction adds stands behind.
    torch.testing.assert_close(corrected.levels[0][images:].flatten(0, 2), whole[IMAGES:].flatten(0, 2))


def test_sparc_takes_rows_for_themselves_and_leaves_no_gaps():
    reference = features(IMAGES, 0)
    rows = torch.arange(0, IMAGES * H * W, H * W)  # all of one cell
    correction = CORRECTIONS["sparc"]().fit(features(4, 1))
    assert corrects_rows(correction)
    corrected, at, images = thin_out(reference, rows).corrected_by(correction)
    assert corrected.levels[0].shape == (1, 1, IMAGES, D)
    assert sorted(at.tolist()) == list(range(IMAGES))
    assert images == 1
    assert not corrects_rows(CORRECTIONS["mean-only"]())


def test_a_side_that_is_not_corrected_stays_as_it_is():
    reference, rows = features(IMAGES, 0), torch.tensor([50, 3, 17])
    correction = CORRECTIONS["sparc"](on="test").fit(features(4, 1))
    corrected, at, _ = thin_out(reference, rows).corrected_by(correction)
    assert torch.equal(corrected.levels[0].flatten(0, 2)[at], reference.levels[0].flatten(0, 2)[rows])
