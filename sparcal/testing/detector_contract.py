"""What must hold for every detector: one list of checks, run over a case."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, get_args

import torch
from torch import Tensor

from sparcal.artifacts import load, save
from sparcal.errors import DataError, NotFittedError, ShapeError
from sparcal.imaging.maps import input_map
from sparcal.testing.expectations import close_scores, equal_features, must_hold, refuses
from sparcal.testing.made_features import OUTLIER_COLUMN, OUTLIER_IMAGE, OUTLIER_ROW, plant_outlier
from sparcal.types import Detector, Family, Features, Scores


@dataclass(frozen=True)
class DetectorCase:
    """One configuration under test.

    Args:
        detector: makes a fresh, unfitted one.
        features: (n, seed) -> features of n normal images, as its encoder would give them; see `normal_features`.
        reference: False for detectors that are fitted on None.
        plant: puts an outlier into the third image; replace it where the default says nothing to this detector.
        unmoved_by_constant: which scores stay when a constant per cell is taken from reference and test features.
    """

    name: str
    detector: Callable[[], Detector]
    features: Callable[[int, int], Features]
    reference: bool = True
    plant: Callable[[Features], Features] = plant_outlier
    unmoved_by_constant: tuple[Literal["image", "cell"], ...] = ()

    def normals(self) -> Features | None:
        """What the detector is fitted on."""
        return self.features(12, 1) if self.reference else None

    def fitted(self) -> Detector:
        """A fitted one."""
        return self.detector().fit(self.normals())

    def test(self) -> Features:
        """Five images, of which the third has the outlier."""
        return self.plant(self.features(5, 100))


def detector_checks(case: DetectorCase) -> dict[str, Callable[[], None]]:
    """The checks that say something about this case, by name, each ready to be called."""
    family = case.detector().family
    left_out: set[Callable[[DetectorCase], None]] = set()
    if not case.reference:
        left_out |= {_fitting_again_forgets, _unfitted_is_refused, _missing_reference_is_refused}
    if not case.unmoved_by_constant:
        left_out |= {_constant_per_cell_changes_nothing}
    if family == "mutual":  # its images score each other, and nothing was fitted that they could fail to match
        left_out |= {_single_image_scores_as_in_a_batch, _other_channels_are_refused, _other_levels_are_refused}
    if family != "cls":
        left_out |= {_image_score_reads_cls_alone}
    chosen = (check for check in _CHECKS if check not in left_out)
    return {check.__name__.removeprefix("_"): partial(check, case) for check in chosen}


def _keeps_the_protocol(case: DetectorCase) -> None:
    detector = case.detector()
    must_hold(isinstance(detector, Detector), "it has family, map_rule, fit and score")
    must_hold(detector.family in get_args(Family), f"its family is one of {get_args(Family)}, got {detector.family!r}")
    must_hold(dataclasses.is_dataclass(detector), "it is a dataclass, so that its settings can be listed and saved")


def _fit_returns_self(case: DetectorCase) -> None:
    detector = case.detector()
    must_hold(detector.fit(case.normals()) is detector, "fit returns the detector itself")


def _scores_are_finite_and_shaped(case: DetectorCase) -> None:
    features = case.test()
    scores = case.fitted().score(features)
    must_hold(scores.image.shape == (len(features),), f"one score per image, got {tuple(scores.image.shape)}")
    must_hold(scores.cell.ndim == 3 and len(scores.cell) == len(features), "one (h, w) grid of scores per image")
    kinds = {scores.image.dtype, scores.cell.dtype}
    must_hold(kinds == {features.levels[0].dtype}, f"scores have the dtype of the features, got {kinds}")
    must_hold(bool(torch.isfinite(scores.image).all()), "image scores are finite")
    must_hold(bool(torch.isfinite(scores.cell).all()), "cell scores are finite")


def _map_covers_the_input(case: DetectorCase) -> None:
    detector = case.fitted()
    cell = detector.score(case.test()).cell
    pixels = input_map(cell, detector.map_rule)
    side = detector.map_rule.cell_pixels
    size = (len(cell), cell.shape[1] * side, cell.shape[2] * side)
    must_hold(pixels.shape == size, f"its map covers the input, {size}, got {tuple(pixels.shape)}")
    must_hold(bool(torch.isfinite(pixels).all()), "its map is finite")


def _inputs_stay_unchanged(case: DetectorCase) -> None:
    given = [part for part in (case.normals(), case.test()) if part is not None]
    before = [part.map(torch.Tensor.clone) for part in given]
    detector = case.detector().fit(given[0] if case.reference else None)
    detector.score(given[-1])
    same = all(equal_features(a, b) for a, b in zip(given, before, strict=True))
    must_hold(same, "fit and score leave their inputs as they were")


def _same_seed_same_bytes(case: DetectorCase) -> None:
    first, second = case.fitted().score(case.test()), case.fitted().score(case.test())
    must_hold(torch.equal(first.image, second.image), "two of them, fitted alike, give the same image scores")
    must_hold(torch.equal(first.cell, second.cell), "two of them, fitted alike, give the same cell scores")


def _fitting_again_forgets(case: DetectorCase) -> None:
    used = case.detector().fit(case.features(30, 7)).fit(case.normals())
    fresh = case.fitted()
    same = torch.equal(used.score(case.test()).cell, fresh.score(case.test()).cell)
    must_hold(same, "one that was fitted before on other images scores as a fresh one")


def _planted_outlier_scores_highest(case: DetectorCase) -> None:
    features = case.test()
    scores = case.fitted().score(features)
    must_hold(int(scores.image.argmax()) == OUTLIER_IMAGE, "the image with the outlier has the highest score")
    must_hold(int(scores.cell.flatten(1).amax(dim=1).argmax()) == OUTLIER_IMAGE, "its cells have the highest peak")
    peak = torch.nonzero(scores.cell[OUTLIER_IMAGE] == scores.cell[OUTLIER_IMAGE].max())[0]
    grid = torch.tensor(features.levels[0].shape[1:3])
    size = torch.tensor(scores.cell.shape[1:])
    place = torch.tensor([int(OUTLIER_ROW * grid[0]), int(OUTLIER_COLUMN * grid[1])])
    away = (peak * grid // size - place).abs()
    # Levels of several grids peak where their cells overlap, which may be one fine cell off.
    must_hold(int(away.max()) <= (0 if torch.equal(size, grid) else 1), "the peak is where the outlier is")


def _permuting_images_permutes_scores(case: DetectorCase) -> None:
    detector, features = case.fitted(), case.test()
    order = [3, 0, 4, 1, 2]
    close_scores(detector.score(features[order]), detector.score(features)[order])


def _single_image_scores_as_in_a_batch(case: DetectorCase) -> None:
    detector, features = case.fitted(), case.test()
    together = detector.score(features)
    for i in range(len(features)):
        close_scores(detector.score(features[i]), together[i : i + 1])


def _unfitted_is_refused(case: DetectorCase) -> None:
    detector = case.detector()
    with refuses(NotFittedError, type(detector).__name__):
        detector.score(case.test())


def _missing_reference_is_refused(case: DetectorCase) -> None:
    for nothing in (None, case.features(4, 1)[0:0]):
        detector = case.detector()
        with refuses(DataError, type(detector).__name__):
            detector.fit(nothing)


def _scoring_no_image_is_refused(case: DetectorCase) -> None:
    detector = case.fitted()
    with refuses(ShapeError, type(detector).__name__):
        detector.score(case.test()[0:0])


def _other_channels_are_refused(case: DetectorCase) -> None:
    detector, features = case.fitted(), case.test()
    with refuses(ShapeError, type(detector).__name__):
        detector.score(features.map(lambda x: torch.cat([x, x[..., :1]], dim=-1)))


def _other_levels_are_refused(case: DetectorCase) -> None:
    detector, features = case.fitted(), case.test()
    with refuses(ShapeError, type(detector).__name__):
        detector.score(Features((*features.levels, *features.levels), features.cls))


def _saving_and_loading_changes_nothing(case: DetectorCase) -> None:
    detector, features = case.fitted(), case.test()
    with tempfile.TemporaryDirectory() as folder:
        restored = load(save(detector, Path(folder) / "detector.safetensors"), kinds=[type(detector)])
    must_hold(type(restored) is type(detector), "loading gives the same class back")
    must_hold(restored.map_rule == detector.map_rule, "loading gives the same map rule back")
    expected, got = detector.score(features), restored.score(features)
    must_hold(torch.equal(got.image, expected.image), "a loaded one gives the same image scores")
    must_hold(torch.equal(got.cell, expected.cell), "a loaded one gives the same cell scores")


def _short_features_give_full_scores(case: DetectorCase) -> None:
    """Features kept in half precision are scored in single precision."""

    def scores(make: Callable[[Tensor], Tensor]) -> Scores:
        normals = case.normals()
        return case.detector().fit(None if normals is None else normals.map(make)).score(case.test().map(make))

    half = scores(torch.Tensor.half)
    must_hold(
        half.image.dtype == half.cell.dtype == torch.float32, "half-precision features get single-precision scores"
    )
    close_scores(half, scores(lambda x: x.half().float()))


def _constant_per_cell_changes_nothing(case: DetectorCase) -> None:
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


def _image_score_reads_cls_alone(case: DetectorCase) -> None:
    """No correction of patch features reaches the image score of a host that scores its CLS vector."""
    detector, features = case.fitted(), case.test()
    changed = detector.score(features.map(lambda x: x.flip(1) * 2))
    must_hold(torch.equal(changed.image, detector.score(features).image), "the image score reads cls alone")


_CHECKS: tuple[Callable[[DetectorCase], None], ...] = (
    _keeps_the_protocol,
    _fit_returns_self,
    _scores_are_finite_and_shaped,
    _map_covers_the_input,
    _inputs_stay_unchanged,
    _same_seed_same_bytes,
    _fitting_again_forgets,
    _planted_outlier_scores_highest,
    _permuting_images_permutes_scores,
    _single_image_scores_as_in_a_batch,
    _unfitted_is_refused,
    _missing_reference_is_refused,
    _scoring_no_image_is_refused,
    _other_channels_are_refused,
    _other_levels_are_refused,
    _saving_and_loading_changes_nothing,
    _short_features_give_full_scores,
    _constant_per_cell_changes_nothing,
    _image_score_reads_cls_alone,
)
