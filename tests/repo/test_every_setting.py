"""Every field of every public dataclass that people fill in is looked at when the object is made."""

from __future__ import annotations

import dataclasses
import importlib
import math
import types
import typing
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparcal.bench.datasets.rendered import Rendering
from sparcal.bench.demo.comparison import Plan
from sparcal.bench.plan.experiment import Block
from sparcal.bench.plan.variant import Variant
from sparcal.calibration.planted import PlantedDefect
from sparcal.corrections import CORRECTIONS, CorrectionFacts
from sparcal.detectors import DETECTORS
from sparcal.encoders import EncoderSpec, Recipe
from sparcal.errors import SparcalError
from sparcal.hosts import HOSTS
from sparcal.imaging.maps import MapRule
from sparcal.imaging.preprocess import Geometry, Preprocess
from sparcal.rendering.photograph import Light
from sparcal.server.settings import Limits, WebSettings
from sparcal.sparc import SPARC
from sparcal.station.calibrating import Request
from sparcal.station.judged_folder import Wanted
from sparcal.types import Features, Scores
from tests.support.source_tree import MODULES

EXAMPLES = [
    *{type(entry()): entry() for entry in CORRECTIONS.values()}.values(),
    *(kind() for kind in DETECTORS.values()),
    *(Preprocess(), Recipe(), Limits(), Wanted(), Rendering(), Plan(), Variant()),
    MapRule(8),
    Geometry((8, 8), (8, 8), (0.0, 0.0, 8.0, 8.0), (0, 0, 8, 8)),
    EncoderSpec("openclip", "ViT-B-16/openai"),
    HOSTS["patchcore"],
    CorrectionFacts("SPARC", SPARC),
    Features((torch.zeros(1, 2, 2, 3),)),
    Scores(torch.zeros(1), torch.zeros(1, 2, 2)),
    Light("lamp", (0.0, 0.0, 1.0)),
    PlantedDefect("stain", 0.1, 60.0, 0),
    Request("L1", "auto", 0.05, None, True, None),
    WebSettings(Path("station")),
    Block(("visa",), ("patchcore",)),
]

# Dataclasses that nobody fills in by hand, and where they come from.
MADE_BY_SPARCAL = {
    "sparcal.testing": "cases for checks, whose first check finds what they got wrong",
    "sparcal.bench": "what a benchmark measures, plans and reports; experiment files are read by Block and Variant",
    "sparcal.calibration": "what a calibration arrives at",
    "sparcal.detectors": "how a fitted detector is exported, and facts read off its class",
    "sparcal.encoders": "encoders, which load_encoder makes from an EncoderSpec",
    "sparcal.export": "what an export holds, and what its runner says",
    "sparcal.files": "what a file of lines holds",
    "sparcal.imaging": "what reading and encoding return",
    "sparcal.integrations": "needs an anomalib model; tests/integrations/anomalib refuses what LotCalibrator cannot take",
    "sparcal.neighbours": "prepared banks and sketches, which check their tensors in their own tests",
    "sparcal.rendering": "parts that are drawn",
    "sparcal.score": "a fitted pair",
    "sparcal.server": "the web station's own workings",
    "sparcal.station": "stations, lots and their records, read from files that have digests",
}

# Numbers that may be below zero.
ANY_SIGN = {"AnomalyDINO.threshold", "Light.position", "Preprocess.mean", "EncoderSpec.layers"}


def public_dataclasses():
    for module, path in MODULES.items():
        if "anomalib" in module or "__main__" in module or "@dataclass" not in path.read_text(encoding="utf-8"):
            continue
        for name, value in vars(importlib.import_module(module)).items():
            own = isinstance(value, type) and value.__module__ == module and not name.startswith("_")
            if own and dataclasses.is_dataclass(value):
                yield value


def test_every_dataclass_is_either_looked_at_or_made_by_sparcal():
    checked = {type(example) for example in EXAMPLES}
    for kind in public_dataclasses():
        room = ".".join(kind.__module__.split(".")[:2])
        assert kind in checked or room in MADE_BY_SPARCAL, f"{kind} is not under this test"


def filled_in(example):
    hints = typing.get_type_hints(type(example), vars(importlib.import_module(type(example).__module__)) | LATER)
    return {f.name: hints[f.name] for f in dataclasses.fields(example) if f.init}


# Names that these modules know to type checkers alone.
LATER = {"MapRule": MapRule, "Preprocess": Preprocess}
FIELDS = [(example, name, kind) for example in EXAMPLES for name, kind in filled_in(example).items()]
NAMES = [f"{type(example).__name__}.{name}" for example, name, _ in FIELDS]


def fits(kind, value):
    """Whether a value is of an annotated type, where True is no number and NaN neither."""
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return any(fits(one, value) for one in inside)
    if origin is typing.Literal:
        return isinstance(value, str) and value in inside
    if origin is tuple:
        parts = inside[:1] * len(value) if isinstance(value, tuple) and inside[1:] == (...,) else inside
        return (
            isinstance(value, tuple)
            and len(parts) == len(value)
            and all(fits(part, one) for part, one in zip(parts, value, strict=True))
        )
    if origin is not None and issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(isinstance(key, str) for key in value)
    if kind is bool or kind is str or kind is types.NoneType:
        return isinstance(value, kind)
    if kind is int:
        return isinstance(value, int | np.integer) and not isinstance(value, bool)
    if kind is float:
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        return whole or (isinstance(value, float | np.floating) and math.isfinite(value))
    return isinstance(value, getattr(kind, "__origin__", kind) if origin is None else origin)


WRONG = [
    *(True, False, 0, 1, -1, 1.5, -0.5, math.nan, math.inf, -math.inf, 10**400, 2**70),
    *("", "bth", "cells", "1", b"cell", None, object(), [], [1], {}, {1: 2}),
    *((), (True,), (math.nan,), ("a",), (1, "a"), ("a", 1), (None,), (1, 2, 3, math.inf)),
    *(np.nan, np.bool_(True), np.array(3), torch.tensor(3), torch.zeros(2), type, len),
]


@pytest.mark.parametrize(("example", "name", "kind"), FIELDS, ids=NAMES)
def test_a_wrong_type_is_refused(example, name, kind):
    for value in WRONG:
        if not fits(kind, value):
            with pytest.raises(SparcalError) as refused:
                dataclasses.replace(example, **{name: value})
            assert str(refused.value).strip().endswith(".")
            assert "\n" not in str(refused.value)


NUMBERS = [
    (example, name) for example, name, kind in FIELDS if kind in (int, float) and name not in ("port", "pictures")
]


@pytest.mark.parametrize(("example", "name"), NUMBERS, ids=lambda part: part if isinstance(part, str) else "")
def test_numpy_numbers_are_numbers_and_are_kept_as_given(example, name):
    value = getattr(example, name)
    given_value = np.int64(value) if isinstance(value, int) else np.float64(value)
    assert getattr(dataclasses.replace(example, **{name: given_value}), name) is given_value


@pytest.mark.parametrize(("example", "name"), NUMBERS, ids=lambda part: part if isinstance(part, str) else "")
def test_what_cannot_be_negative_is_not(example, name):
    if f"{type(example).__name__}.{name}" not in ANY_SIGN:
        with pytest.raises(SparcalError):
            dataclasses.replace(example, **{name: -1})


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)  # fmt: skip


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.sampled_from(FIELDS), ANYTHING)
def test_any_value_is_refused_or_fits_and_is_kept_as_it_is(place, value):
    example, name, kind = place
    try:
        made = dataclasses.replace(example, **{name: value})
    except SparcalError:
        return
    assert fits(kind, value)
    assert getattr(made, name) is value
