"""How good parts differ, each statistic against a slow version of its definition."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sparcal.calibration.part_statistics import (
    DULLEST,
    LENT,
    alignment,
    displacement,
    left_out_residuals,
    loneliness,
    oddness,
    part_distances,
    spread_and_offset,
    typical_distance,
)
from sparcal.sparc import SPARC
from sparcal.types import Features
from tests.support.drawn_parts import TRAIN, H, W, maps, parts


def test_alignment_is_the_mean_cosine_of_patterns():
    lot = parts(3, 1)
    mean = TRAIN.levels[0].mean(0)
    mean = mean - mean.mean((0, 1))
    for image, got in zip(lot.levels[0], alignment(lot, TRAIN), strict=True):
        x = image - image.mean((0, 1))
        cosines = [x[i, j] @ mean[i, j] / (x[i, j].norm() * mean[i, j].norm()) for i in range(H) for j in range(W)]
        assert float(got) == pytest.approx(float(torch.stack(cosines).mean()), abs=1e-5)


def test_distances_are_in_units_of_two_training_parts():
    distances = part_distances(TRAIN, TRAIN, typical_distance(TRAIN))
    off = distances[~torch.eye(30, dtype=torch.bool)]
    assert float(off.mean()) == pytest.approx(1, rel=1e-4)
    assert float(distances.diagonal().max()) < 1e-9


def test_spread_and_offset_follow_their_definition():
    lot, train = parts(4, 1, 0.5).levels[0].double(), TRAIN.levels[0].double()
    own = sum((x - train.mean(0)).square().sum(-1).mean() for x in train) / 29
    spread = sum((x - lot.mean(0)).square().sum(-1).mean() for x in lot) / 3
    offset = (lot.mean(0) - train.mean(0)).square().sum(-1).mean()
    assert spread_and_offset(Features((lot.float(),)), TRAIN) == pytest.approx(
        (float(spread / own), float(offset / own))
    )


def test_left_out_residuals_are_what_sparc_leaves():
    lot = parts(5, 1)
    found = left_out_residuals(lot, TRAIN)
    for j in range(5):
        others = [i for i in range(5) if i != j]
        sparc = SPARC().fit(lot[others])
        left = (sparc.apply(lot[j]).levels[0][0] - sparc.mean_[0]).square().sum(-1)
        torch.testing.assert_close(found.residual[j], left, rtol=1e-4, atol=1e-5)
    assert found.removed.shape == (H, W)
    assert 0 <= found.own_removed <= 1
    assert (found.removed <= 1 + 1e-6).all()


def deviations(value, others, own_spread):
    """How far a further value lies above others, in deviations that it would have by chance."""
    n = len(others)
    variance = (others.var() * n + LENT * own_spread**2) / (n - 1 + LENT)
    return (value - others.mean()) / np.sqrt(variance + variance / n)


def against_others(values, own_spread):
    """Against all others; and, in case some hide one another, whoever is as high as one that stands above all below it."""
    ordered = np.sort(values)[::-1]
    hidden = [
        (ordered[r], deviations(ordered[r], ordered[r + 1 :], own_spread)) for r in range(1, len(values) // 4 + 1)
    ]
    return [
        max([deviations(v, np.delete(values, j), own_spread), *(found for limit, found in hidden if v >= limit)])
        for j, v in enumerate(values)
    ]


@pytest.mark.parametrize("own_spread", [0.02, 0.3])
@pytest.mark.parametrize("k", [3, 8])
def test_oddness_is_level_and_prominence_against_the_others(k, own_spread):
    lot = maps(k, 4)
    lot[1, 2, 3] *= 3
    top = [np.log(one.max()) for one in lot.double().numpy()]
    bulk = [np.log(np.quantile(one, 0.9)) for one in lot.double().numpy()]
    level, prominence = oddness(lot, own_spread)
    np.testing.assert_allclose(level, against_others(np.array(top), own_spread), rtol=1e-6)
    np.testing.assert_allclose(prominence, against_others(np.array(top) - np.array(bulk), own_spread), rtol=1e-6)
    assert int(level.argmax()) == int(prominence.argmax()) == 1


def test_a_light_raises_the_level_and_leaves_the_prominence():
    plain, lit = maps(8, 4), maps(8, 4)
    lit[3] *= 7
    assert float(oddness(lit, 0.1)[0][3]) > 10
    torch.testing.assert_close(oddness(lit, 0.1)[1], oddness(plain, 0.1)[1], rtol=1e-5, atol=1e-5)


def test_loneliness_is_of_the_dullest_cells_in_the_stations_deviations():
    lot = maps(6, 5)
    lot[2] *= 3
    dull = np.array([np.log(np.quantile(one, DULLEST)) for one in lot.double().numpy()])
    for j, got in enumerate(loneliness(lot, 0.2)):
        others = np.sort(np.delete(dull, j))
        assert float(got) == pytest.approx((dull[j] - others[(len(others) - 1) // 2]) / 0.2)


def test_a_light_makes_a_part_lonely_and_a_defect_over_two_thirds_of_it_does_not():
    lit, smashed = maps(8, 5), maps(8, 5)
    lit[4] *= 3
    smashed[4, : 2 * H // 3] *= 3
    assert int(loneliness(lit, 0.1).argmax()) == 4
    assert float(loneliness(lit, 0.1)[4]) > 2 * float(loneliness(smashed, 0.1)[4])


def test_maps_without_any_score_are_not_odd():
    for value in (*oddness(torch.zeros(4, H, W), 0.0), loneliness(torch.zeros(4, H, W), 0.0)):
        assert torch.equal(value, torch.zeros(4, dtype=torch.float64))


def test_a_displacement_must_align_clearly_better():
    assert displacement(parts(6, 1), TRAIN) == (0, 0)
    assert displacement(parts(6, 1).map(lambda x: torch.roll(x, (2, -1), (1, 2))), TRAIN) == (2, -1)
    small = Features((TRAIN.levels[0][:, :2, :2],))
    assert displacement(small, small) == (0, 0)
