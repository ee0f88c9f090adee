"""Which words of an experiment go together: an option that would change nothing is refused."""

from __future__ import annotations

import inspect

from sparcal.bench.plan.contenders import FEATURES, known_host
from sparcal.bench.plan.unit import BATCHNORM
from sparcal.bench.plan.variant import Variant
from sparcal.corrections import CORRECTIONS
from sparcal.errors import DataError

_OPTIONS = ("rank", "on")


def check_combination(host: str, correction: str, variant: Variant) -> None:
    """Refuse a variant with words that this host or this correction would ignore."""
    _check_draw(variant)
    if variant.source_weight is not None and correction != BATCHNORM:
        raise DataError(
            "calibration-only and source-mixed say how batch-norm statistics are mixed, got them with the correction "
            f"{correction}: leave them out, or use {BATCHNORM}."
        )
    for option in _OPTIONS:
        value = getattr(variant, option)
        if value is None:
            continue
        if option not in correction_options(correction):
            raise DataError(f"The correction {correction} has no {option}, got {option}={value}: leave it out.")
        if host == FEATURES:
            raise DataError(f"The host {FEATURES} diagnoses SPARC as it is, got {option}={value}: leave it out.")
    if variant.on == "reference" and known_host(host).family != "reference":
        raise DataError(f"The host {host} has no reference that on=reference could correct: use on=test.")
    if variant.settings and host == FEATURES:
        raise DataError(f"The host {FEATURES} has no detector, got setting={variant.settings[0][0]}: leave it out.")


def correction_options(name: str) -> tuple[str, ...]:
    """Which of the options rank and on a correction has."""
    if name in (BATCHNORM, "identity"):  # identity has a side, on which it does nothing
        return ()
    taken = inspect.signature(CORRECTIONS[name].kind).parameters
    return tuple(option for option in _OPTIONS if option in taken)


def _check_draw(variant: Variant) -> None:
    if variant.source == "train" and (variant.full_normal or variant.scene_disjoint):
        other = "full-normal" if variant.full_normal else "scene-disjoint"
        raise DataError(f"{other} is about normals of the test split, got it with source=train: choose one of them.")
    if variant.full_normal and variant.scene_disjoint:
        raise DataError("full-normal shows every good scene, so scene-disjoint leaves none to evaluate: choose one.")
