"""Each correction against its formula, and the rejections of its own."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sparcal.corrections import Coral, GlobalSubspace, MeanOnly, NormalsInReference, SparcMean
from sparcal.errors import DataError, ShapeError
from sparcal.sparc import SPARC
from sparcal.types import Features
from tests.support.random_features import random_features


@pytest.fixture
def lot():
    """(calibration, reference, test), each with two levels and a cls vector."""

    def features(seed, n):
        return Features((random_features(seed, n), random_features(seed + 50, n, h=2, w=2, d=9)), torch.randn(n, 5))

    torch.manual_seed(0)
    return features(0, 4), features(1, 12), features(2, 3)


def test_mean_only(lot):
    calibration, _, test = lot
    got = MeanOnly().fit(calibration).apply(test).levels[0]
    torch.testing.assert_close(got, test.levels[0] - calibration.levels[0].mean(dim=0))


def test_sparc_mean_is_sparc_minus_the_mean(lot):
    calibration, _, test = lot
    sparc = SPARC().fit(calibration)
    got = SparcMean().fit(calibration).apply(test).levels[0]
    torch.testing.assert_close(got, sparc.apply(test).levels[0] - sparc.mean_[0])


def test_global_subspace_equals_an_svd_of_all_centred_cells(lot):
    calibration, _, test = lot
    x = calibration.levels[0].double().numpy()
    mu = x.mean(axis=0)
    _, _, vt = np.linalg.svd((x - mu).reshape(-1, x.shape[-1]), full_matrices=False)
    v = vt[:3]
    f = test.levels[0].double().numpy()
    want = f - (f - mu) @ v.T @ v
    got = GlobalSubspace().fit(calibration).apply(test).levels[0]
    np.testing.assert_allclose(got.numpy(), want, atol=1e-5)


def test_global_subspace_of_equal_images_is_the_identity(lot):
    calibration = Features((lot[0].levels[0][:1].expand(4, -1, -1, -1),))
    test = Features((lot[2].levels[0],))
    assert torch.equal(GlobalSubspace().fit(calibration).apply(test).levels[0], test.levels[0])


def test_coral_equals_the_textbook_formula(lot):
    calibration, reference, test = lot

    def unit(x):
        x = x.double().numpy().reshape(-1, x.shape[-1])
        return x / np.linalg.norm(x, axis=1, keepdims=True)

    def root(matrix, exponent):
        values, vectors = np.linalg.eigh(matrix)
        return (vectors * values**exponent) @ vectors.T

    s, t, f = (unit(part.levels[0]) for part in (calibration, reference, test))
    eye = 0.3 * np.eye(s.shape[1])
    whiten, colour = root(np.cov(s.T) + eye, -0.5), root(np.cov(t.T) + eye, 0.5)
    want = (f - s.mean(axis=0)) @ whiten @ colour + t.mean(axis=0)
    coral = Coral(regularisation=0.3).fit(calibration, reference)
    np.testing.assert_allclose(coral.apply(test).levels[0].flatten(0, 2).numpy(), want, atol=1e-5)
    np.testing.assert_allclose(coral.apply_reference(reference).levels[0].flatten(0, 2).numpy(), t, atol=1e-6)


def test_coral_leaves_zeros_in_half_precision_finite(lot):
    calibration, reference, test = (features.map(lambda x: x.half()) for features in lot)
    test.levels[0][:, 0, 0] = reference.levels[0][:, 0, 0] = 0
    coral = Coral().fit(calibration, reference)
    assert bool(torch.isfinite(coral.apply(test).levels[0]).all())
    assert bool((coral.apply_reference(reference).levels[0][:, 0, 0] == 0).all())


def test_coral_refusals(lot):
    calibration, reference, _ = lot
    with pytest.raises(DataError, match="Coral needs the reference features in fit, got none"):
        Coral().fit(calibration)
    with pytest.raises(ShapeError, match="Coral needs reference and calibration on the same grids"):
        Coral().fit(calibration, Features((reference.levels[0],)))


def test_normals_are_added_to_the_reference(lot):
    calibration, reference, test = lot
    alone = NormalsInReference().fit(calibration, reference)
    assert alone.apply(test) is test
    grown = alone.apply_reference(reference)
    assert len(grown) == len(reference) + 4
    assert torch.equal(grown.levels[0][-4:], calibration.levels[0])
    assert torch.equal(grown.cls[-4:], calibration.cls)

    after = NormalsInReference(after="sparc").fit(calibration, reference)
    sparc = SPARC().fit(calibration)
    assert torch.equal(after.apply(test).levels[0], sparc.apply(test).levels[0])
    corrected = after.apply_reference(reference).levels[0]
    assert torch.equal(corrected[:-4], sparc.apply(reference).levels[0])
    torch.testing.assert_close(corrected[-4:], sparc.mean_[0].expand(4, -1, -1, -1), rtol=0, atol=2e-5)
