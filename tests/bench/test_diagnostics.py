"""The paper's diagnostics against loops, their limits, and where a defect lands on the grid."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from sparcal.bench.diagnostics import contrast, dc_energy, overlap, removed_share, touched_cells
from sparcal.errors import NotFittedError, ShapeError
from sparcal.imaging.preprocess import Preprocess
from sparcal.sparc import SPARC
from sparcal.types import Features
from tests.support.random_features import random_features


@pytest.fixture
def case():
    calibration, test = Features((random_features(0, 5),)), Features((random_features(1, 6),))
    anomalous = torch.rand(6, 3, 4, generator=torch.Generator().manual_seed(2)) > 0.7
    return SPARC().fit(calibration), calibration, test, anomalous


def loop(sparc, test):
    """rho, |g| and |(I - VV^T) g| of every cell, one at a time."""
    for n, i, j in np.ndindex(test.levels[0].shape[:3]):
        g = (test.levels[0][n, i, j] - sparc.mean_[0][i, j]).double().numpy()
        v = sparc.basis_[0][i, j].double().numpy()
        removed = v.T @ (v @ g)
        yield (n, i, j), removed @ removed / (g @ g), np.linalg.norm(g), np.linalg.norm(g - removed)


def test_overlap_and_contrast_equal_a_loop(case):
    sparc, _, test, anomalous = case
    rho, base, left = {True: [], False: []}, {True: [], False: []}, {True: [], False: []}
    for place, share, before, after in loop(sparc, test):
        kind = bool(anomalous[place])
        rho[kind].append(share)
        base[kind].append(before)
        left[kind].append(after)
    assert overlap(sparc, test, anomalous).value == pytest.approx(np.mean(rho[True]), rel=1e-5)
    measured = contrast(sparc, test, anomalous)
    assert measured.base == pytest.approx(np.mean(base[True]) - np.mean(base[False]), rel=1e-4)
    assert measured.sparc == pytest.approx(np.mean(left[True]) - np.mean(left[False]), rel=1e-4)


def test_pooling_parts_equals_the_whole(case):
    sparc, _, test, anomalous = case
    halves = [contrast(sparc, test[half], anomalous[half]) for half in (slice(0, 3), slice(3, 6))]
    assert (halves[0] + halves[1]).sparc == pytest.approx(contrast(sparc, test, anomalous).sparc)


def test_calibration_energy_is_removed_whole_and_isotropic_energy_by_s_over_d(case):
    sparc, calibration, _, _ = case
    assert removed_share(sparc, calibration).min() == pytest.approx(1.0, abs=1e-5)
    noise = Features((torch.randn(400, 3, 4, 24, generator=torch.Generator().manual_seed(99)) + sparc.mean_[0],))
    assert float(removed_share(sparc, noise).mean()) == pytest.approx(4 / 24, rel=0.05)
    assert removed_share(sparc, Features((sparc.mean_[0][None],))).abs().max() == 0


def test_dc_energy_tells_offset_from_spread():
    calibration, reference = Features((random_features(0, 5),)), Features((random_features(1, 9),))
    moved = Features((calibration.levels[0] + 2.0,))
    x, y = calibration.levels[0].double().numpy(), reference.levels[0].double().numpy()
    energy = dc_energy(calibration, reference)
    assert energy.first == pytest.approx(((x.mean(0) - y.mean(0)) ** 2).sum(-1).mean(), rel=1e-6)
    assert energy.second == pytest.approx(((x - x.mean(0)) ** 2).sum(-1).mean(), rel=1e-6)
    assert dc_energy(moved, reference).second == pytest.approx(energy.second, rel=1e-5)
    assert dc_energy(moved, reference).share > energy.share


@pytest.mark.parametrize(
    ("preprocess", "pixel", "cell"),
    [
        (Preprocess(size=64, resize="square"), (10, 150), (0, 6)),
        (Preprocess(size=64, resize="short", crop=64), (50, 100), (4, 4)),
        (Preprocess(size=64, resize="short", crop=64), (50, 5), None),
        (Preprocess(size=64, resize="pad"), (0, 0), (2, 0)),
    ],
)
def test_defects_land_on_the_cells_that_show_them(preprocess, pixel, cell):
    """A native image of 100 x 200 on an 8 x 8 grid."""
    _, geometry = preprocess(Image.new("RGB", (200, 100)))
    mask = np.zeros((100, 200), bool)
    mask[pixel] = True
    touched = touched_cells(mask, geometry, (8, 8)).nonzero().tolist()
    assert touched == ([list(cell)] if cell else [])


def test_refusals(case):
    sparc, _, test, anomalous = case
    with pytest.raises(ShapeError, match=r"must be a bool tensor \(6, 3, 4\), got \(6, 3, 3\) torch.bool: stack"):
        overlap(sparc, test, anomalous[..., :3])
    with pytest.raises(NotFittedError, match="SPARC must be fitted"):
        removed_share(SPARC(), test)
    _, geometry = Preprocess(size=64, resize="square")(Image.new("RGB", (20, 10)))
    with pytest.raises(ShapeError, match=r"native size \(10, 20\), got \(5, 5\)"):
        touched_cells(np.zeros((5, 5), bool), geometry, (8, 8))
