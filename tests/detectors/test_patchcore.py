"""PatchCore against slow, obvious loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from sparcal.detectors.padim import PaDiM
from sparcal.detectors.patchcore import (
    PatchCore,
    johnson_lindenstrauss_dimension,
    mean_distance,
    novelty,
    sparse_projection,
    uniform_projection,
)
from sparcal.errors import DataError, NotFittedError
from sparcal.neighbours.search import Bank
from sparcal.testing import normal_features
from sparcal.types import Features, keeps_rows

make = normal_features((4, 5, 6))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_score_is_the_squared_distance_to_the_nearest_bank_row() -> None:
    detector = PatchCore().fit(make(6, 0))
    features = make(2, 50)
    scores = detector.score(features)
    bank = detector.bank_.double().numpy()
    for i in range(2):
        cells = features.levels[0][i].double().numpy()
        expected = [[min(((bank - cells[y, x]) ** 2).sum(axis=1)) for x in range(5)] for y in range(4)]
        np.testing.assert_allclose(scores.cell[i].numpy(), expected, rtol=1e-4)
        assert scores.image[i] == scores.cell[i].max()


def test_coreset_is_the_authors_greedy_selection() -> None:
    """Anchor distance starts as the mean distance to ten random points, which are not members themselves."""
    reference = make(6, 0)
    points = reference.levels[0].flatten(0, 2).double()
    detector = PatchCore(coreset=0.2, seed=3).fit(Features((reference.levels[0].double(),)))
    anchors = torch.randperm(len(points), generator=generator(3))[:10]
    away = np.array([np.mean([np.linalg.norm(p - points[a]) for a in anchors]) for p in points])
    chosen = []
    for _ in range(24):
        pick = int(away.argmax())
        chosen.append(pick)
        away = np.minimum(away, np.linalg.norm(points - points[pick], axis=1))
    assert torch.equal(detector.bank_, points[chosen])


def test_anomalib_coreset_begins_with_one_random_member() -> None:
    reference = make(6, 0)
    points = reference.levels[0].flatten(0, 2)
    first = int(torch.randint(len(points), (1,), generator=generator(5)))
    bank = PatchCore(anchors=0, seed=5).fit(reference).bank_
    assert torch.equal(bank[0], points[first])


@pytest.mark.parametrize(("share", "expected"), [(0.1, 12), (0.5, 60), (1.0, 120), (0.001, 1)])
def test_coreset_keeps_its_share(share: float, expected: int) -> None:
    reference = make(6, 0)
    bank = PatchCore(coreset=share).fit(reference).bank_
    assert bank.shape == (expected, 6)
    rows = {tuple(row) for row in reference.levels[0].flatten(0, 2).tolist()}
    assert {tuple(row) for row in bank.tolist()} <= rows


def test_selection_runs_on_the_projection_but_keeps_full_features() -> None:
    reference = normal_features((4, 4, 40))(5, 0)
    detector = PatchCore(dimension=3).fit(reference)
    assert detector.bank_.shape == (8, 40)
    assert not torch.equal(detector.bank_, PatchCore(dimension=40).fit(reference).bank_)


def test_seed_changes_the_selection() -> None:
    reference = make(6, 0)
    assert not torch.equal(PatchCore(seed=0).fit(reference).bank_, PatchCore(seed=1).fit(reference).bank_)


def test_mean_over_neighbours() -> None:
    reference, features = make(3, 0), make(1, 50)
    scores = PatchCore(coreset=1.0, neighbours=4, squared=False).fit(reference).score(features)
    bank = reference.levels[0].flatten(0, 2)
    expected = torch.linalg.vector_norm(bank - features.levels[0][0, 1, 2], dim=1).sort().values[:4].mean()
    torch.testing.assert_close(scores.cell[0, 1, 2], expected)


def test_reweighting_is_the_papers_formula() -> None:
    features = make(3, 50)
    detector = PatchCore.anomalib().fit(make(20, 0))
    scores = detector.score(features)
    bank = detector.bank_.double().numpy()
    for i in range(3):
        cells = features.levels[0][i].flatten(0, 1).double().numpy()
        away = np.linalg.norm(cells[:, None] - bank[None], axis=2)
        patch = int(away.min(axis=1).argmax())
        match = int(away[patch].argmin())
        support = np.argsort(np.linalg.norm(bank - bank[match], axis=1))[:9]
        share = math.exp(away[patch, match]) / sum(math.exp(away[patch, m]) for m in support)
        assert float(scores.image[i]) == pytest.approx((1 - share) * away[patch, match], rel=1e-4)


def test_reweighting_survives_large_distances_and_small_banks() -> None:
    bank = torch.tensor([[0.0, 0.0], [300.0, 0.0]])
    weight = novelty(torch.tensor([[-500.0, 0.0]]), torch.tensor([0]), Bank.of(bank), 9)
    assert float(weight) == pytest.approx(1.0)


def test_anomalib_form_is_what_its_docstring_says() -> None:
    detector = PatchCore.anomalib(cell_pixels=16, seed=4)
    assert (detector.projection, detector.anchors, detector.squared, detector.reweight) == ("sparse", 0, False, 9)
    assert (detector.map_rule.upsample, detector.map_rule.cell_pixels, detector.seed) == ("nearest", 16, 4)


def test_uniform_projection_fills_its_interval() -> None:
    matrix = uniform_projection(400, 128, generator())
    assert matrix.shape == (400, 128)
    assert 0.99 / 20 < float(matrix.abs().max()) <= 1 / 20
    assert abs(float(matrix.mean())) < 1e-3


def test_sparse_projection_has_its_density_and_keeps_lengths() -> None:
    matrix = sparse_projection(1536, 300, generator())
    share = float((matrix != 0).float().mean())
    assert share == pytest.approx(1 / math.sqrt(1536), rel=0.03)
    vector = torch.randn(1536, generator=generator(1))
    assert float((vector @ matrix).norm() / vector.norm()) == pytest.approx(1, abs=0.15)


def test_sparse_projection_dimension_is_johnson_lindenstrauss() -> None:
    from sklearn.random_projection import johnson_lindenstrauss_min_dim

    for count in (100, 7840, 235_200):
        assert johnson_lindenstrauss_dimension(count) == johnson_lindenstrauss_min_dim(count, eps=0.9)


def test_sparse_projection_of_a_single_cell_keeps_it() -> None:
    assert johnson_lindenstrauss_dimension(1) == 1
    fitted = PatchCore(projection="sparse", anchors=0, coreset=0.5).fit(Features((torch.ones(1, 1, 1, 8),)))
    assert fitted.rows.tolist() == [0]


def test_sparse_projection_is_used_when_features_are_longer() -> None:
    reference = normal_features((3, 3, 200))(4, 0)  # 36 points: dimension 88
    sparse = PatchCore(projection="sparse", anchors=0).fit(reference)
    plain = PatchCore(dimension=200, anchors=0).fit(reference)
    assert sparse.bank_.shape == (3, 200)
    assert not torch.equal(sparse.bank_, plain.bank_)


def test_mean_distance_of_an_anchor_to_itself_is_zero() -> None:
    points = torch.randn(50, 8, generator=generator()) + 1000
    assert float(mean_distance(points, points[[7]])[7]) == 0


@pytest.mark.parametrize("share", [0.0, -0.1, 1.5, float("nan")])
def test_coreset_outside_its_range_is_refused(share: float) -> None:
    with pytest.raises(DataError, match=r"PatchCore.coreset must be in \(0, 1\], got"):
        PatchCore(coreset=share).fit(make(2, 0))


def test_other_grid_of_the_same_channels_is_scored() -> None:
    """A bank has no positions, so parts photographed at another size can be scored."""
    scores = PatchCore().fit(make(6, 0)).score(normal_features((7, 3, 6))(2, 1))
    assert scores.cell.shape == (2, 7, 3)


def test_a_new_reference_replaces_the_prepared_bank() -> None:
    make = normal_features((4, 4, 12))
    detector = PatchCore(coreset=1)
    first = detector.fit(make(6, 0)).score(make(2, 9))
    assert torch.equal(detector.score(make(2, 9)).cell, first.cell)
    second = detector.fit(make(6, 50)).score(make(2, 9))
    assert torch.equal(second.cell, PatchCore(coreset=1).fit(make(6, 50)).score(make(2, 9)).cell)
    assert not torch.equal(second.cell, first.cell)


def test_restricted_to_takes_the_bank_from_another_reference() -> None:
    original = PatchCore(seed=2).fit(make(6, 0))
    bank = original.bank_
    other = make(6, 90)
    moved = original.restricted_to(other, original.rows)
    assert torch.equal(moved.bank_, other.levels[0].flatten(0, 2)[original.rows])
    assert torch.equal(moved.rows, original.rows)
    assert original.bank_ is bank
    everything = PatchCore(coreset=1).fit(other)
    alone = everything.restricted_to(other, torch.arange(20, 40))
    assert torch.equal(alone.score(make(2, 50)).cell, PatchCore(coreset=1).fit(other[1]).score(make(2, 50)).cell)


def test_restricted_to_widens_short_features_as_fit_does() -> None:
    half = Features((make(6, 0).levels[0].half(),))
    assert PatchCore().fit(half).restricted_to(half, torch.arange(3)).bank_.dtype == torch.float32


def test_only_a_coreset_is_worth_keeping() -> None:
    assert keeps_rows(PatchCore())
    assert not keeps_rows(PatchCore(coreset=1))
    assert not keeps_rows(PaDiM())


def test_rows_of_an_unfitted_patchcore_are_refused() -> None:
    with pytest.raises(NotFittedError, match="PatchCore must be fitted before use, got an unfitted one"):
        _ = PatchCore().rows


@pytest.mark.parametrize(
    ("rows", "got"), [([], "none"), ([0, 40], "0 to 40"), ([-1, 3], "-1 to 3")], ids=("none", "beyond", "negative")
)
def test_rows_outside_the_reference_are_refused(rows: list[int], got: str) -> None:
    chosen = torch.tensor(rows, dtype=torch.int64)
    with pytest.raises(DataError, match=f"needs rows among the 40 of the reference, got {got}: take them from"):
        PatchCore().fit(make(6, 0)).restricted_to(make(2, 0), chosen)
