"""What must hold for every detector: one list of checks, run over a list of cases.

A new detector joins by one more `DetectorCase` in tests/detectors/test_contract.py; a new truth by one more function
in `DETECTOR_CHECKS`. Corrections and encoders have their own lists, in correction_checks.py and encoder_checks.py.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import pytest
import torch
from torch import Tensor

from sparcal.artifacts import load, save
from sparcal.errors import DataError, NotFittedError, ShapeError
from sparcal.imaging.maps import input_map
from sparcal.types import Detector, Family, Features, Scores

ROW, COLUMN = 0.3, 0.6  # where the outlier is planted, as shares of the grid
PLANTED = 2  # in which image


def normal_features(*grids: tuple[int, int, int], channels: int | None = None) -> Callable[[int, int], Features]:
    """A factory (n, seed) -> Features: each cell has a mean of its own, each image a little noise around it.

    Args:
        grids: (h, w, d) of each level.
        channels: length of `cls`, for hosts that have one.
    """

    def around_mean(shape: tuple[int, ...], n: int, seed: int) -> Tensor:
        mean = torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))
        return mean + 0.1 * torch.randn(n, *shape, generator=torch.Generator().manual_seed(seed))

    def make(n: int, seed: int) -> Features:
        levels = tuple(around_mean(grid, n, seed + number) for number, grid in enumerate(grids))
        return Features(levels, None if channels is None else around_mean((channels,), n, seed))

    return make


def plant_outlier(features: Features) -> Features:
    """The same features with one cell of image `PLANTED` pushed far away, at the same place of every level."""

    def push(level: Tensor) -> Tensor:
        _, h, w, d = level.shape
        pushed = level.clone()
        far = torch.randn(d, generator=torch.Generator().manual_seed(d), dtype=level.dtype)
        pushed[PLANTED, int(ROW * h), int(COLUMN * w)] += 10 * far
        return pushed

    return features.map(push)


@dataclass(frozen=True)
class DetectorCase:
    """One configuration under test.

    Args:
        detector: makes a fresh, unfitted one.
        features: (n, seed) -> features of n normal images, as its encoder would give them.
        reference: False for detectors that are fitted on None.
        plant: puts an outlier into image `PLANTED`; replace it where the default says nothing to this detector.
        unmoved_by_constant: which scores stay when a constant per cell is taken from reference and test features.
    """

    name: str
    detector: Callable[[], Detector]
    features: Callable[[int, int], Features]
    reference: bool = True
    plant: Callable[[Features], Features] = plant_outlier
    unmoved_by_constant: tuple[Literal["image", "cell"], ...] = ()

    def normals(self) -> Features | None:
        return self.features(12, 1) if self.reference else None

    def fitted(self) -> Detector:
        return self.detector().fit(self.normals())

    def test(self) -> Features:
        return self.plant(self.features(5, 100))


def close(got: Scores, expected: Scores) -> None:
    torch.testing.assert_close(got.image, expected.image, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(got.cell, expected.cell, rtol=1e-4, atol=1e-5)


@contextmanager
def refuses(kind: type[Exception], who: str) -> Iterator[None]:
    """The block raises `kind` with one sentence that names who, what came, and the remedy."""
    with pytest.raises(kind) as caught:
        yield
    sentence = str(caught.value)
    assert who in sentence
    assert "got" in sentence
    assert ": " in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence


def keeps_the_protocol(case: DetectorCase) -> None:
    detector = case.detector()
    assert isinstance(detector, Detector)
    assert detector.family in get_args(Family)
    assert dataclasses.is_dataclass(detector)


def fit_returns_self(case: DetectorCase) -> None:
    detector = case.detector()
    assert detector.fit(case.normals()) is detector


def scores_are_finite_and_shaped(case: DetectorCase) -> None:
    features = case.test()
    scores = case.fitted().score(features)
    assert scores.image.shape == (len(features),)
    assert scores.cell.ndim == 3
    assert len(scores.cell) == len(features)
    assert scores.image.dtype == scores.cell.dtype == features.levels[0].dtype
    assert torch.isfinite(scores.image).all()
    assert torch.isfinite(scores.cell).all()


def map_covers_the_input(case: DetectorCase) -> None:
    detector = case.fitted()
    cell = detector.score(case.test()).cell
    pixels = input_map(cell, detector.map_rule)
    side = detector.map_rule.cell_pixels
    assert pixels.shape == (len(cell), cell.shape[1] * side, cell.shape[2] * side)
    assert torch.isfinite(pixels).all()


def inputs_stay_unchanged(case: DetectorCase) -> None:
    normals, features = case.normals(), case.test()
    before = [x.clone() for part in (normals, features) if part is not None for x in tensors(part)]
    case.detector().fit(normals).score(features)
    after = [x for part in (normals, features) if part is not None for x in tensors(part)]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def same_seed_same_bytes(case: DetectorCase) -> None:
    first, second = case.fitted().score(case.test()), case.fitted().score(case.test())
    assert torch.equal(first.image, second.image)
    assert torch.equal(first.cell, second.cell)


def fitting_again_forgets(case: DetectorCase) -> None:
    """A detector fitted before on other images scores as a fresh one."""
    used = case.detector().fit(case.features(30, 7)).fit(case.normals())
    fresh = case.fitted()
    assert torch.equal(used.score(case.test()).cell, fresh.score(case.test()).cell)


def planted_outlier_scores_highest(case: DetectorCase) -> None:
    features = case.test()
    scores = case.fitted().score(features)
    assert int(scores.image.argmax()) == PLANTED
    assert int(scores.cell.flatten(1).amax(dim=1).argmax()) == PLANTED
    peak = torch.nonzero(scores.cell[PLANTED] == scores.cell[PLANTED].max())[0]
    grid = torch.tensor(features.levels[0].shape[1:3])
    size = torch.tensor(scores.cell.shape[1:])
    away = (peak * grid // size - torch.tensor([int(ROW * grid[0]), int(COLUMN * grid[1])])).abs()
    # Levels of several grids peak where their cells overlap, which may be one fine cell off.
    assert int(away.max()) <= (0 if torch.equal(size, grid) else 1)


def permuting_images_permutes_scores(case: DetectorCase) -> None:
    detector, features = case.fitted(), case.test()
    order = [3, 0, 4, 1, 2]
    close(detector.score(features[order]), detector.score(features)[order])


def single_image_scores_as_in_a_batch(case: DetectorCase) -> None:
    detector, features = case.fitted(), case.test()
    together = detector.score(features)
    for i in range(len(features)):
        close(detector.score(features[i]), together[i : i + 1])


def unfitted_is_refused(case: DetectorCase) -> None:
    detector = case.detector()
    with refuses(NotFittedError, type(detector).__name__):
        detector.score(case.test())


def missing_reference_is_refused(case: DetectorCase) -> None:
    for nothing in (None, case.features(4, 1)[0:0]):
        detector = case.detector()
        with refuses(DataError, type(detector).__name__):
            detector.fit(nothing)


def scoring_no_image_is_refused(case: DetectorCase) -> None:
    detector = case.fitted()
    with refuses(ShapeError, type(detector).__name__):
        detector.score(case.test()[0:0])


def other_channels_are_refused(case: DetectorCase) -> None:
    detector, features = case.fitted(), case.test()
    with refuses(ShapeError, type(detector).__name__):
        detector.score(features.map(lambda x: torch.cat([x, x[..., :1]], dim=-1)))


def other_levels_are_refused(case: DetectorCase) -> None:
    detector, features = case.fitted(), case.test()
    with refuses(ShapeError, type(detector).__name__):
        detector.score(Features((*features.levels, *features.levels), features.cls))


def saving_and_loading_changes_nothing(case: DetectorCase) -> None:
    detector, features = case.fitted(), case.test()
    with tempfile.TemporaryDirectory() as folder:
        restored = load(save(detector, Path(folder) / "detector.safetensors"))
    assert type(restored) is type(detector)
    assert restored.map_rule == detector.map_rule
    expected, got = detector.score(features), restored.score(features)
    assert torch.equal(got.image, expected.image)
    assert torch.equal(got.cell, expected.cell)


def short_features_give_full_scores(case: DetectorCase) -> None:
    """Features kept in half precision are scored in single precision."""

    def scores(make: Callable[[Tensor], Tensor]) -> Scores:
        normals = case.normals()
        return case.detector().fit(None if normals is None else normals.map(make)).score(case.test().map(make))

    half = scores(torch.Tensor.half)
    assert half.image.dtype == half.cell.dtype == torch.float32
    close(half, scores(lambda x: x.half().float()))


def constant_per_cell_changes_nothing(case: DetectorCase) -> None:
    """Mean-only correction cannot help a detector that centres each cell itself."""
    normals, features = (part.map(torch.Tensor.double) for part in (case.features(12, 1), case.test()))
    constants = tuple(3 * x[0] for x in case.features(1, 9).map(torch.Tensor.double).levels)
    moved = [
        Features(tuple(x - c for x, c in zip(part.levels, constants, strict=True)), part.cls)
        for part in (normals, features)
    ]
    plain = case.detector().fit(normals).score(features)
    shifted = case.detector().fit(moved[0]).score(moved[1])
    for name in case.unmoved_by_constant:
        torch.testing.assert_close(getattr(shifted, name), getattr(plain, name), rtol=1e-9, atol=1e-9)


def image_score_reads_cls_alone(case: DetectorCase) -> None:
    """No correction of patch features reaches the image score of a host that scores its CLS vector."""
    detector, features = case.fitted(), case.test()
    changed = detector.score(features.map(lambda x: x.flip(1) * 2))
    assert torch.equal(changed.image, detector.score(features).image)


def tensors(features: Features) -> tuple[Tensor, ...]:
    return features.levels if features.cls is None else (*features.levels, features.cls)


DETECTOR_CHECKS: tuple[Callable[[DetectorCase], None], ...] = (
    keeps_the_protocol,
    fit_returns_self,
    scores_are_finite_and_shaped,
    map_covers_the_input,
    inputs_stay_unchanged,
    same_seed_same_bytes,
    fitting_again_forgets,
    planted_outlier_scores_highest,
    permuting_images_permutes_scores,
    single_image_scores_as_in_a_batch,
    unfitted_is_refused,
    missing_reference_is_refused,
    scoring_no_image_is_refused,
    other_channels_are_refused,
    other_levels_are_refused,
    saving_and_loading_changes_nothing,
    short_features_give_full_scores,
    constant_per_cell_changes_nothing,
    image_score_reads_cls_alone,
)


def checks_for(case: DetectorCase) -> list[Callable[[DetectorCase], None]]:
    """The checks that say something about this case."""
    family = case.detector().family
    left_out: set[Callable[[DetectorCase], None]] = set()
    if not case.reference:
        left_out |= {fitting_again_forgets, unfitted_is_refused, missing_reference_is_refused}
    if not case.unmoved_by_constant:
        left_out |= {constant_per_cell_changes_nothing}
    if family == "mutual":  # its images score each other, and nothing was fitted that they could fail to match
        left_out |= {single_image_scores_as_in_a_batch, other_channels_are_refused, other_levels_are_refused}
    if family != "cls":
        left_out |= {image_score_reads_cls_alone}
    return [check for check in DETECTOR_CHECKS if check not in left_out]
