"""AnomalyDINO against slow, obvious loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sparcal.detectors.anomalydino import (
    AnomalyDINO,
    dilate,
    erode,
    first_component,
    foreground,
    with_foreground,
)
from sparcal.errors import ShapeError
from sparcal.testing import normal_features
from sparcal.types import Features

make = normal_features((4, 5, 6))


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def part_on_a_table(*, contrast: float = 40.0, bore: bool = False) -> tuple[Features, torch.Tensor]:
    """Two images whose middle differs from the rest along one direction, and where that middle is."""
    random = torch.Generator().manual_seed(0)
    inside = torch.zeros(12, 12, dtype=torch.bool)
    inside[3:9, 3:9] = True
    inside[4:7, 4:7] &= not bore
    direction = torch.nn.functional.normalize(torch.randn(16, generator=random), dim=0)
    tokens = torch.randn(2, 12, 12, 16, generator=random) + contrast * inside[None, :, :, None] * direction
    return Features((tokens,)), inside


def test_score_is_one_minus_the_best_cosine() -> None:
    reference, features = make(3, 0), make(2, 50)
    scores = AnomalyDINO().fit(reference).score(features)
    bank = reference.levels[0].flatten(0, 2).double().numpy()
    for i in range(2):
        cells = features.levels[0][i].double().numpy()
        expected = [[1 - max(cosine(cells[y, x], m) for m in bank) for x in range(5)] for y in range(4)]
        np.testing.assert_allclose(scores.cell[i].numpy(), expected, atol=1e-6)


def test_length_does_not_matter() -> None:
    detector, features = AnomalyDINO().fit(make(3, 0)), make(2, 50)
    longer = features.map(lambda x: 7 * x)
    torch.testing.assert_close(detector.score(longer).cell, detector.score(features).cell, atol=1e-6, rtol=0)


def test_image_score_is_the_mean_of_the_top_percent() -> None:
    wide = normal_features((20, 15, 4))  # 300 cells: the top 3
    scores = AnomalyDINO().fit(wide(3, 0)).score(wide(2, 50))
    for image, cell in zip(scores.image, scores.cell, strict=True):
        torch.testing.assert_close(image, cell.flatten().sort(descending=True).values[:3].mean())
    small = AnomalyDINO().fit(make(3, 0)).score(make(2, 50))  # 20 cells: one percent is none, so the maximum
    torch.testing.assert_close(small.image, small.cell.flatten(1).amax(dim=1))


def test_mean_over_neighbours() -> None:
    reference, features = make(3, 0), make(1, 50)
    cell = AnomalyDINO(neighbours=3).fit(reference).score(features).cell[0, 2, 2]
    bank, query = reference.levels[0].flatten(0, 2).double().numpy(), features.levels[0][0, 2, 2].double().numpy()
    expected = np.mean(sorted(1 - cosine(query, m) for m in bank)[:3])
    assert float(cell) == pytest.approx(expected, abs=1e-6)


def test_other_grid_of_the_same_channels_is_scored() -> None:
    scores = AnomalyDINO().fit(make(3, 0)).score(normal_features((7, 3, 6))(2, 1))
    assert scores.cell.shape == (2, 7, 3)


def test_foreground_is_the_part_grown_by_one_cell() -> None:
    features, inside = part_on_a_table()
    expected = torch.zeros_like(inside)
    expected[2:10, 2:10] = True
    assert torch.equal(foreground(features.levels[0], 10.0), expected.expand(2, -1, -1))


def test_foreground_closes_what_is_left_of_a_bore() -> None:
    """Three cells wide, it is one cell wide after the dilation and gone after the closing."""
    features, inside = part_on_a_table(bore=True)
    assert not inside[5, 5]
    assert foreground(features.levels[0], 10.0)[:, 2:10, 2:10].all()


def test_foreground_does_not_depend_on_the_sign_of_the_component() -> None:
    features, _ = part_on_a_table()
    assert torch.equal(foreground(-features.levels[0], 10.0), foreground(features.levels[0], 10.0))


def test_low_contrast_has_no_foreground() -> None:
    features, _ = part_on_a_table(contrast=2.0)
    assert not foreground(features.levels[0], 10.0).any()


def test_first_component_equals_scikit_learn_up_to_sign() -> None:
    from sklearn.decomposition import PCA

    tokens = part_on_a_table()[0].levels[0][0]
    expected = PCA(n_components=1, svd_solver="full").fit_transform(tokens.flatten(0, 1).double().numpy())
    np.testing.assert_allclose(np.abs(first_component(tokens).flatten().numpy()), np.abs(expected[:, 0]), atol=1e-8)


def test_masked_cells_score_zero_and_count_in_the_top_percent() -> None:
    features, _ = part_on_a_table()
    plain = AnomalyDINO().fit(features[0]).score(features)
    masked = AnomalyDINO(mask="tokens").fit(features[0]).score(features)
    kept = foreground(features.levels[0], 10.0)
    assert torch.equal(masked.cell, torch.where(kept, plain.cell, 0.0))
    assert 0 < int(kept.sum()) < kept.numel()


def test_mask_from_cls_survives_a_change_of_the_tokens() -> None:
    features, _ = part_on_a_table()
    known = with_foreground(features)
    corrected = known.map(lambda x: x - x.mean(dim=0))
    detector = AnomalyDINO(mask="cls").fit(features.map(lambda x: x + 1))
    zero = detector.score(corrected).cell == 0
    assert torch.equal(zero, ~foreground(features.levels[0], 10.0))
    lost = AnomalyDINO(mask="tokens").fit(features.map(lambda x: x + 1)).score(corrected).cell == 0
    assert lost.all()


def test_mask_threshold_is_used() -> None:
    features, _ = part_on_a_table()
    assert (AnomalyDINO(mask="tokens", threshold=1e3).fit(features).score(features).cell == 0).all()


@pytest.mark.parametrize(("cls", "got"), [(None, "none"), (torch.zeros(2, 7), "7 columns")])
def test_missing_mask_is_refused(cls: torch.Tensor | None, got: str) -> None:
    features = make(2, 0)
    with pytest.raises(
        ShapeError, match=rf"reads one value per cell, 20, from Features.cls, got {got}: pass the uncorr"
    ):
        AnomalyDINO(mask="cls").fit(features).score(Features(features.levels, cls))


def test_morphology_equals_opencv_in_two_dimensions() -> None:
    import cv2

    random = np.random.default_rng(0)
    kernel = np.ones((3, 3), np.uint8)
    for share in (0.05, 0.4, 0.9):
        mask = (random.random((11, 9)) < share).astype(np.uint8)
        closed = cv2.morphologyEx(cv2.dilate(mask, kernel), cv2.MORPH_CLOSE, kernel)
        ours = erode(dilate(dilate(torch.as_tensor(mask)[None].bool())))[0]
        np.testing.assert_array_equal(ours.numpy(), closed.astype(bool))


def test_morphology_does_not_wrap_at_row_ends() -> None:
    mask = torch.zeros(1, 4, 4, dtype=torch.bool)
    mask[0, 1, 3] = True
    assert not dilate(mask)[0, :, 0].any()
