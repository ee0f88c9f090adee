"""SPADE against slow, obvious loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import interpolate

from sparcal.detectors.spade import SPADE
from sparcal.errors import DataError, ShapeError
from sparcal.imaging.maps import MapRule, input_map
from sparcal.testing import normal_features
from sparcal.types import Features

make = normal_features((4, 4, 3), (2, 2, 5), (2, 3, 7))


def descriptor_distances(levels: list[torch.Tensor], reference: list[torch.Tensor]) -> np.ndarray:
    """(n, m): distance of every test image to every reference image, over spatial means joined."""
    test = np.concatenate([x.double().numpy().mean(axis=(1, 2)) for x in levels], axis=1)
    bank = np.concatenate([x.double().numpy().mean(axis=(1, 2)) for x in reference], axis=1)
    return np.array([[np.sqrt(((a - b) ** 2).sum()) for b in bank] for a in test])


@pytest.mark.parametrize("descriptor", ["layer4", "pooled-pixels"])
def test_scores_equal_the_loops(descriptor: str) -> None:
    reference, features = make(9, 0), make(3, 50)
    scores = SPADE(image_descriptor=descriptor).fit(reference).score(features)
    used = [2] if descriptor == "layer4" else [0, 1]
    away = descriptor_distances([features.levels[i] for i in used], [reference.levels[i] for i in used])
    for i in range(3):
        neighbours = np.argsort(away[i])[:5]
        assert float(scores.image[i]) == pytest.approx(away[i][neighbours].mean(), rel=1e-5)
        total = torch.zeros(16, 16)
        for level, gallery in zip(features.levels[:2], reference.levels[:2], strict=True):
            _, h, w, d = level.shape
            vectors = gallery[torch.as_tensor(neighbours)].reshape(-1, d)
            nearest = torch.tensor(
                [[float((vectors - level[i, y, x]).norm(dim=1).min()) for x in range(w)] for y in range(h)]
            )
            total += interpolate(nearest[None, None], size=(16, 16), mode="bilinear", align_corners=False)[0, 0]
        torch.testing.assert_close(scores.cell[i], total / 2, rtol=1e-4, atol=1e-5)


def test_the_two_descriptors_differ() -> None:
    layer4, pooled = (
        SPADE(image_descriptor=name).fit(make(9, 0)).score(make(3, 50)).image for name in ("layer4", "pooled-pixels")
    )
    assert not torch.allclose(layer4, pooled)


def test_pooled_pixels_do_not_read_the_last_level() -> None:
    reference, features = make(9, 0), make(3, 50)
    changed = Features((*features.levels[:2], features.levels[2] + 5))
    detector = SPADE(image_descriptor="pooled-pixels").fit(reference)
    assert torch.equal(detector.score(changed).image, detector.score(features).image)


def test_a_last_level_of_one_cell_is_the_descriptor_itself() -> None:
    """Reading C of the image score: the pooled vector as a 1x1 grid."""

    def pooled(features: Features) -> Features:
        return Features((*features.levels[:-1], features.levels[-1].mean(dim=(1, 2), keepdim=True)))

    reference, features = make(9, 0), make(3, 50)
    on_grid, on_vector = SPADE().fit(reference).score(features), SPADE().fit(pooled(reference)).score(pooled(features))
    torch.testing.assert_close(on_vector.image, on_grid.image)
    assert torch.equal(on_vector.cell, on_grid.cell)


def test_fewer_reference_images_than_neighbours() -> None:
    reference, features = make(2, 0), make(1, 50)
    scores = SPADE(images=5).fit(reference).score(features)
    away = descriptor_distances([features.levels[2]], [reference.levels[2]])
    assert float(scores.image[0]) == pytest.approx(away.mean(), rel=1e-5)


def test_only_the_nearest_images_form_the_gallery() -> None:
    reference = make(6, 0)
    features = reference[3]
    scores = SPADE(images=1).fit(reference).score(features)
    assert float(scores.image) == pytest.approx(0, abs=1e-6)
    torch.testing.assert_close(scores.cell, torch.zeros_like(scores.cell), atol=1e-2, rtol=0)
    others = SPADE(images=1).fit(reference[[0, 1, 2, 4, 5]]).score(features)
    assert float(others.cell.min()) > 0


def test_cell_scores_live_on_input_pixels_and_the_rule_only_smooths() -> None:
    detector = SPADE(cell_pixels=8).fit(make(6, 0))
    scores = detector.score(make(2, 9))
    assert scores.cell.shape == (2, 32, 32)
    unsmoothed = input_map(scores.cell, MapRule(cell_pixels=1, sigma=0.0))
    torch.testing.assert_close(unsmoothed, scores.cell)


def test_a_map_rule_that_would_upsample_again_is_refused() -> None:
    with pytest.raises(
        DataError, match=r"needs cell_pixels=1, got 4: give the size of the encoder's cells as SPADE.cell_p"
    ):
        SPADE(map_rule=MapRule(cell_pixels=4))


def test_a_changed_image_level_is_refused() -> None:
    detector = SPADE().fit(make(6, 0))
    features = normal_features((4, 4, 3), (2, 2, 5), (2, 3, 8))(1, 0)
    with pytest.raises(ShapeError, match="SPADE was fitted on features of 7 channels, got 8"):
        detector.score(features)
