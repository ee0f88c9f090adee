"""What must hold for every correction: one list of checks, run over a case."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

import torch

from sparcal.artifacts import load, save
from sparcal.detectors import PatchCore
from sparcal.errors import DataError, NotFittedError, ShapeError
from sparcal.score import score_lot
from sparcal.testing.expectations import equal_features, must_hold, refuses
from sparcal.testing.made_features import normal_features
from sparcal.types import Correction, Features, Side

_make = normal_features((3, 4, 6), (2, 2, 9), channels=5)


@dataclass(frozen=True)
class CorrectionCase:
    """One configuration under test.

    Args:
        correction: makes a fresh, unfitted one.
        learns: False for one that needs nothing of the normals, so that nothing can be missing or damaged.
        changes_test: False for one that leaves test features as they are, whatever their grid.
    """

    name: str
    correction: Callable[[], Correction]
    learns: bool = True
    changes_test: bool = True

    def fitted(self) -> Correction:
        """A fitted one."""
        return self.correction().fit(_normals(), _reference())

    def on(self, side: Side) -> Correction:
        """An unfitted one that corrects this side."""
        made: Any = self.correction()
        changed: Correction = dataclasses.replace(made, on=side)
        return changed


def correction_checks(case: CorrectionCase) -> dict[str, Callable[[], None]]:
    """The checks that say something about this case, by name, each ready to be called."""
    left_out: set[Callable[[CorrectionCase], None]] = set()
    if not case.learns:
        left_out |= {_unfitted_is_refused, _too_few_normals_are_refused, _damaged_normals_are_refused}
    if not case.changes_test:
        left_out |= {_another_grid_is_refused}
    chosen = (check for check in _CHECKS if check not in left_out)
    return {check.__name__.removeprefix("_"): partial(check, case) for check in chosen}


def _normals() -> Features:
    return _make(4, 0)


def _reference() -> Features:
    return _make(12, 1)


def _test() -> Features:
    return _make(3, 2)


def _keeps_the_protocol(case: CorrectionCase) -> None:
    correction = case.correction()
    must_hold(isinstance(correction, Correction), "it has on, fit, apply and apply_reference")
    must_hold(correction.on in get_args(Side), f"it is on one of {get_args(Side)}, got {correction.on!r}")
    must_hold(dataclasses.is_dataclass(correction), "it is a dataclass, so that its settings can be listed and saved")


def _fit_returns_self(case: CorrectionCase) -> None:
    correction = case.correction()
    must_hold(correction.fit(_normals(), _reference()) is correction, "fit returns the correction itself")


def _apply_keeps_grids_types_and_image_vectors(case: CorrectionCase) -> None:
    test = _test()
    out = case.fitted().apply(test)
    must_hold(out.grids == test.grids, f"apply keeps the grids {test.grids}, got {out.grids}")
    must_hold(len(out) == len(test), "apply keeps the images")
    must_hold(out.cls is test.cls, "apply does not touch the image vectors")
    must_hold([x.dtype for x in out.levels] == [x.dtype for x in test.levels], "apply keeps the dtypes")
    must_hold(all(bool(torch.isfinite(x).all()) for x in out.levels), "corrected features are finite")


def _reference_side_begins_with_the_reference(case: CorrectionCase) -> None:
    """A correction may add images to the reference, after those that were there."""
    reference = _reference()
    out = case.fitted().apply_reference(reference)
    must_hold(out.grids == reference.grids, f"apply_reference keeps the grids {reference.grids}, got {out.grids}")
    must_hold(len(out) >= len(reference), "apply_reference keeps the images")
    must_hold(_begins_with(out, reference), "apply_reference keeps the image vectors of the reference, in front")


def _begins_with(features: Features, others: Features) -> bool:
    if features.cls is None or others.cls is None:
        return features.cls is others.cls
    return torch.equal(features.cls[: len(others)], others.cls)


def _inputs_stay_unchanged(case: CorrectionCase) -> None:
    normals, reference, test = _normals(), _reference(), _test()
    correction = case.correction().fit(normals, reference)
    correction.apply(test)
    correction.apply_reference(reference)
    pairs = ((normals, _normals()), (reference, _reference()), (test, _test()))
    must_hold(
        all(equal_features(a, b) for a, b in pairs), "fit, apply and apply_reference leave their inputs as they were"
    )


def _same_input_same_bytes(case: CorrectionCase) -> None:
    first, second = case.fitted().apply(_test()), case.fitted().apply(_test())
    must_hold(equal_features(first, second), "two of them, fitted alike, give the same features")


def _fitting_again_forgets(case: CorrectionCase) -> None:
    used = case.correction().fit(_make(3, 60), _make(9, 70)).fit(_normals(), _reference())
    fresh = case.fitted()
    same = equal_features(used.apply(_test()), fresh.apply(_test())) and equal_features(
        used.apply_reference(_reference()), fresh.apply_reference(_reference())
    )
    must_hold(same, "one that was fitted before on another lot corrects as a fresh one")


def _order_of_the_normals_does_not_matter(case: CorrectionCase) -> None:
    turned = case.correction().fit(_normals()[[2, 0, 3, 1]], _reference()).apply(_test())
    for got, expected in zip(turned.levels, case.fitted().apply(_test()).levels, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


def _one_image_is_corrected_as_in_a_batch(case: CorrectionCase) -> None:
    correction, test = case.fitted(), _test()
    together = correction.apply(test)
    for i in range(len(test)):
        for got, expected in zip(correction.apply(test[i]).levels, together[i].levels, strict=True):
            torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


def _score_lot_honours_the_side(case: CorrectionCase) -> None:
    """Correcting one side alone is what applying by hand to that side alone gives."""
    normals, reference, test = (Features(part.levels[:1]) for part in (_normals(), _reference(), _test()))
    for side in get_args(Side):
        by_hand = case.on(side).fit(normals, reference)
        detector = PatchCore(coreset=1).fit(by_hand.apply_reference(reference) if side != "test" else reference)
        expected = detector.score(by_hand.apply(test) if side != "reference" else test)
        got = score_lot(PatchCore(coreset=1), test, reference=reference, calibration=normals, correction=case.on(side))
        must_hold(torch.equal(got.cell, expected.cell), f"score_lot corrects as by hand on the side {side!r}")


def _saving_and_loading_changes_nothing(case: CorrectionCase) -> None:
    correction = case.fitted()
    with tempfile.TemporaryDirectory() as folder:
        restored = load(save(correction, Path(folder) / "correction.safetensors"), kinds=[type(correction)])
    must_hold(type(restored) is type(correction), "loading gives the same class back")
    must_hold(restored.on == correction.on, "loading gives the same side back")
    same = equal_features(restored.apply(_test()), correction.apply(_test())) and equal_features(
        restored.apply_reference(_reference()), correction.apply_reference(_reference())
    )
    must_hold(same, "a loaded one corrects as the one that was saved")


def _unfitted_is_refused(case: CorrectionCase) -> None:
    correction = case.correction()
    with refuses(NotFittedError, type(correction).__name__):
        correction.apply(_test())


def _too_few_normals_are_refused(case: CorrectionCase) -> None:
    for count in (0, 1):
        correction = case.correction()
        with refuses(DataError, "calibration images"):
            correction.fit(_normals()[0:count], _reference())


def _damaged_normals_are_refused(case: CorrectionCase) -> None:
    correction = case.correction()
    with refuses(DataError, "calibration features"):
        correction.fit(_normals().map(lambda x: x * torch.nan), _reference())


def _another_grid_is_refused(case: CorrectionCase) -> None:
    correction = case.fitted()
    with refuses(ShapeError, ".apply"):
        correction.apply(_test().map(lambda x: x[..., :5]))


_CHECKS: tuple[Callable[[CorrectionCase], None], ...] = (
    _keeps_the_protocol,
    _fit_returns_self,
    _apply_keeps_grids_types_and_image_vectors,
    _reference_side_begins_with_the_reference,
    _inputs_stay_unchanged,
    _same_input_same_bytes,
    _fitting_again_forgets,
    _order_of_the_normals_does_not_matter,
    _one_image_is_corrected_as_in_a_batch,
    _score_lot_honours_the_side,
    _saving_and_loading_changes_nothing,
    _unfitted_is_refused,
    _too_few_normals_are_refused,
    _damaged_normals_are_refused,
    _another_grid_is_refused,
)
