"""What must hold for every correction: one list of checks, run on every entry of the registry.

A new correction joins by its entry in `CORRECTIONS`; a new truth by one more function in `CORRECTION_CHECKS`.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import torch

from sparcal.artifacts import load, save
from sparcal.corrections import CORRECTIONS
from sparcal.detectors import PatchCore
from sparcal.errors import DataError, NotFittedError, ShapeError
from sparcal.score import score_lot
from sparcal.types import Correction, Features, Side
from tests.support.contracts import normal_features, refuses, tensors

make = normal_features((3, 4, 6), (2, 2, 9), channels=5)

NORMALS, REFERENCE, TEST = make(4, 0), make(12, 1), make(3, 2)


def fitted(name: str, **settings: Any) -> Correction:
    return CORRECTIONS[name](**settings).fit(NORMALS, REFERENCE)


def same(got: Features, expected: Features) -> bool:
    return all(torch.equal(a, b) for a, b in zip(tensors(got), tensors(expected), strict=True))


def keeps_the_protocol(name: str) -> None:
    correction = CORRECTIONS[name]()
    assert isinstance(correction, Correction)
    assert correction.on in get_args(Side)
    assert dataclasses.is_dataclass(correction)


def fit_returns_self(name: str) -> None:
    correction = CORRECTIONS[name]()
    assert correction.fit(NORMALS, REFERENCE) is correction


def apply_keeps_grids_types_and_image_vectors(name: str) -> None:
    out = fitted(name).apply(TEST)
    assert out.grids == TEST.grids
    assert len(out) == len(TEST)
    assert out.cls is TEST.cls
    assert [x.dtype for x in out.levels] == [x.dtype for x in TEST.levels]
    assert all(torch.isfinite(x).all() for x in out.levels)


def reference_side_begins_with_the_reference(name: str) -> None:
    """A correction may add images to the reference, after those that were there."""
    out = fitted(name).apply_reference(REFERENCE)
    assert out.grids == REFERENCE.grids
    assert len(out) >= len(REFERENCE)
    assert torch.equal(out.cls[: len(REFERENCE)], REFERENCE.cls)


def inputs_stay_unchanged(name: str) -> None:
    parts = (NORMALS, REFERENCE, TEST)
    before = [x.clone() for part in parts for x in tensors(part)]
    correction = fitted(name)
    correction.apply(TEST)
    correction.apply_reference(REFERENCE)
    assert all(torch.equal(a, b) for a, b in zip(before, (x for part in parts for x in tensors(part)), strict=True))


def same_input_same_bytes(name: str) -> None:
    assert same(fitted(name).apply(TEST), fitted(name).apply(TEST))


def fitting_again_forgets(name: str) -> None:
    used = CORRECTIONS[name]().fit(make(3, 60), make(9, 70)).fit(NORMALS, REFERENCE)
    assert same(used.apply(TEST), fitted(name).apply(TEST))
    assert same(used.apply_reference(REFERENCE), fitted(name).apply_reference(REFERENCE))


def order_of_the_normals_does_not_matter(name: str) -> None:
    turned = CORRECTIONS[name]().fit(NORMALS[[2, 0, 3, 1]], REFERENCE).apply(TEST)
    for got, expected in zip(turned.levels, fitted(name).apply(TEST).levels, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


def one_image_is_corrected_as_in_a_batch(name: str) -> None:
    correction = fitted(name)
    together = correction.apply(TEST)
    for i in range(len(TEST)):
        for got, expected in zip(correction.apply(TEST[i]).levels, together[i].levels, strict=True):
            torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


def score_lot_honours_the_side(name: str) -> None:
    """Correcting one side alone is what applying by hand to that side alone gives."""
    normals, reference, test = (Features(part.levels[:1]) for part in (NORMALS, REFERENCE, TEST))
    for side in get_args(Side):
        correction = CORRECTIONS[name](on=side)
        by_hand = CORRECTIONS[name](on=side).fit(normals, reference)
        detector = PatchCore(coreset=1).fit(by_hand.apply_reference(reference) if side != "test" else reference)
        expected = detector.score(by_hand.apply(test) if side != "reference" else test)
        got = score_lot(PatchCore(coreset=1), test, reference=reference, calibration=normals, correction=correction)
        assert torch.equal(got.cell, expected.cell), side


def saving_and_loading_changes_nothing(name: str) -> None:
    correction = fitted(name)
    with tempfile.TemporaryDirectory() as folder:
        restored = load(save(correction, Path(folder) / "correction.safetensors"))
    assert type(restored) is type(correction)
    assert restored.on == correction.on
    assert same(restored.apply(TEST), correction.apply(TEST))
    assert same(restored.apply_reference(REFERENCE), correction.apply_reference(REFERENCE))


def unfitted_is_refused(name: str) -> None:
    correction = CORRECTIONS[name]()
    with refuses(NotFittedError, type(correction).__name__):
        correction.apply(TEST)


def too_few_normals_are_refused(name: str) -> None:
    for count in (0, 1):
        correction = CORRECTIONS[name]()
        with refuses(DataError, "calibration images"):
            correction.fit(NORMALS[0:count], REFERENCE)


def damaged_normals_are_refused(name: str) -> None:
    correction = CORRECTIONS[name]()
    with refuses(DataError, "calibration features"):
        correction.fit(NORMALS.map(lambda x: x * torch.nan), REFERENCE)


def another_grid_is_refused(name: str) -> None:
    correction = fitted(name)
    with refuses(ShapeError, ".apply"):
        correction.apply(TEST.map(lambda x: x[..., :5]))


CORRECTION_CHECKS: tuple[Callable[[str], None], ...] = (
    keeps_the_protocol,
    fit_returns_self,
    apply_keeps_grids_types_and_image_vectors,
    reference_side_begins_with_the_reference,
    inputs_stay_unchanged,
    same_input_same_bytes,
    fitting_again_forgets,
    order_of_the_normals_does_not_matter,
    one_image_is_corrected_as_in_a_batch,
    score_lot_honours_the_side,
    saving_and_loading_changes_nothing,
    unfitted_is_refused,
    too_few_normals_are_refused,
    damaged_normals_are_refused,
    another_grid_is_refused,
)


def checks_for(name: str) -> list[Callable[[str], None]]:
    """The checks that say something about this correction."""
    left_out: set[Callable[[str], None]] = set()
    if name == "identity":  # learns nothing, so nothing can be missing or damaged
        left_out |= {unfitted_is_refused, too_few_normals_are_refused, damaged_normals_are_refused}
    if name in ("identity", "normals"):  # leave test features as they are, whatever their grid
        left_out |= {another_grid_is_refused}
    return [check for check in CORRECTION_CHECKS if check not in left_out]
