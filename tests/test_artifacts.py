"""What is saved comes back the same; what is damaged, foreign or of another version is refused in a sentence."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from sparcal.artifacts import ARTIFACT_FORMAT, ARTIFACT_HEADER, _digest, check_savable, load, save
from sparcal.corrections import CORRECTIONS, NormalsInReference
from sparcal.detectors import PaDiM, PatchCore
from sparcal.errors import ArtifactError, DataError
from sparcal.files.atomic import atomic_path
from sparcal.files.json_record import write_json
from sparcal.imaging.maps import MapRule
from sparcal.sparc import SPARC
from sparcal.types import Features
from tests.support.random_features import random_features


def lot():
    return Features((random_features(0, 4),)), Features((random_features(1, 9),)), Features((random_features(2, 3),))


@pytest.mark.parametrize("name", CORRECTIONS)
def test_corrections_come_back_the_same(name, tmp_path):
    calibration, reference, test = lot()
    fitted = CORRECTIONS[name](on="test").fit(calibration, reference)
    again = load(save(fitted, tmp_path / "correction.safetensors"))
    assert type(again) is type(fitted)
    assert again.on == "test"
    assert torch.equal(again.apply(test).levels[0], fitted.apply(test).levels[0])
    assert torch.equal(again.apply_reference(reference).levels[0], fitted.apply_reference(reference).levels[0])


def test_settings_of_every_kind_come_back(tmp_path):
    rule = MapRule(cell_pixels=7, sigma=2.5, upsample="nearest")
    detector = PatchCore(coreset=0.3, reweight=3, map_rule=rule)
    assert load(save(detector, tmp_path / "unfitted")) == detector


def test_same_content_same_bytes(tmp_path):
    fitted = PaDiM().fit(lot()[1])
    assert save(fitted, tmp_path / "a").read_bytes() == save(fitted, tmp_path / "b").read_bytes()


def test_nested_state_comes_back(tmp_path):
    calibration, reference, _ = lot()
    again = load(save(NormalsInReference(after="sparc").fit(calibration, reference), tmp_path / "x"))
    assert isinstance(again.sparc_, SPARC)
    assert again.sparc_.k_ == 4


def test_missing_damaged_and_foreign_files(tmp_path):
    with pytest.raises(ArtifactError, match=r"expected to be a file, got none there: check the path"):
        load(tmp_path / "none")
    path = save(SPARC().fit(lot()[0]), tmp_path / "sparc.safetensors")
    whole = path.read_bytes()
    for cut in (0, 5, 200, len(whole) - 3):
        path.write_bytes(whole[:cut])
        with pytest.raises(ArtifactError, match=r"sparc.safetensors is damaged or not a safetensors file"):
            load(path)
    changed = bytearray(whole)
    changed[-1] ^= 1
    path.write_bytes(changed)
    with pytest.raises(ArtifactError, match="does not match its own digest, so it was changed or damaged"):
        load(path)
    save_file({"x": torch.zeros(1)}, path)
    with pytest.raises(ArtifactError, match="was not written by sparcal: save the object again"):
        load(path)
    save_file(
        {"x": torch.zeros(1)},
        path,
        metadata={ARTIFACT_HEADER: json.dumps({"format": ARTIFACT_FORMAT + 1, "digest": ""})},
    )
    with pytest.raises(
        ArtifactError, match=rf"has format {ARTIFACT_FORMAT + 1}, this sparcal reads {ARTIFACT_FORMAT}: use the sparcal"
    ):
        load(path)


def test_only_known_kinds_are_saved(tmp_path):
    with pytest.raises(
        DataError, match=r"save takes a correction or a detector, .*, got a dict: see sparcal.artifacts"
    ):
        save({}, tmp_path / "x")


@dataclass
class Whitening:
    """Somebody else's correction, made as sparcal's own are."""

    strength: float = 0.5
    on: str = "both"
    scale_: tuple[torch.Tensor, ...] | None = field(default=None, init=False)

    def fit(self, calibration, reference=None):  # noqa: ARG002
        self.scale_ = tuple(1 / (x.std(dim=0) + self.strength) for x in calibration.levels)
        return self

    def apply(self, features):
        return Features(tuple(x * s for x, s in zip(features.levels, self.scale_, strict=True)), features.cls)

    apply_reference = apply


class Wrapped:
    """Somebody else's correction that is no dataclass."""

    on = "both"

    def __init__(self, model):
        self.model = model

    def state(self):
        return {"inner": self.model, "note": ("a", 1, None), "weights": torch.arange(3)}

    @classmethod
    def from_state(cls, state):
        assert state["note"] == ("a", 1, None)
        assert torch.equal(state["weights"], torch.arange(3))
        return cls(state["inner"])


def test_somebody_elses_class_comes_back_where_it_is_handed_in(tmp_path):
    calibration, _, test = lot()
    whitening = Whitening(strength=np.float64(0.25)).fit(calibration)
    path = save(whitening, tmp_path / "whitening")
    again = load(path, kinds=[Whitening])
    assert isinstance(again, Whitening)
    assert again.strength == 0.25
    assert torch.equal(again.apply(test).levels[0], whitening.apply(test).levels[0])
    wrapped = load(save(Wrapped(whitening), tmp_path / "wrapped"), kinds=[Wrapped, Whitening])
    assert torch.equal(wrapped.model.apply(test).levels[0], whitening.apply(test).levels[0])


def test_a_file_never_decides_what_is_imported(tmp_path):
    path = save(Whitening().fit(lot()[0]), tmp_path / "whitening")
    sentence = r"holds a 'tests.test_artifacts:Whitening', which is neither sparcal's nor registered: import its class"
    with pytest.raises(ArtifactError, match=sentence):
        load(path)
    with pytest.raises(ArtifactError, match="neither sparcal's nor registered"):
        load(save(Wrapped(SPARC()), tmp_path / "wrapped"), kinds=[Whitening])
    hostile(path, {"kind": "os:system", "settings": {"command": "true"}, "state": {}})
    with pytest.raises(ArtifactError, match="holds a 'os:system', which is neither sparcal's"):
        load(path)


def hostile(path, description):
    """A file as a stranger could write it, digest and all."""
    description = {**description, "format": ARTIFACT_FORMAT}
    save_file({}, path, metadata={ARTIFACT_HEADER: json.dumps({**description, "digest": _digest(description, {})})})


@pytest.mark.parametrize(
    "description",
    [
        {"kind": "SPARC", "settings": {"recentre": "cells"}, "state": {}},
        {"kind": "SPARC", "settings": {"colour": 1}, "state": {}},
        {"kind": "SPARC", "settings": {}, "state": {"apply": {"value": 1}}},
        {"kind": "SPARC", "settings": {}, "state": {"__class__": {"value": 1}}},
        {"kind": "SPARC", "settings": {}, "state": {"mean_": {"tensor": True}}},
        {"kind": "SPARC", "state": {}},
        {"kind": "SPARC", "settings": [], "state": 3},
        {"kind": ["SPARC"], "settings": {}, "state": {}},
        {"settings": {}},
    ],
)
def test_a_file_of_a_stranger_is_refused_in_a_sentence(description, tmp_path):
    hostile(tmp_path / "x", description)
    with pytest.raises(ArtifactError, match="cannot be rebuilt"):
        load(tmp_path / "x")


def test_what_cannot_be_saved_is_said_before_the_work():
    check_savable(SPARC(rank=2))
    check_savable(Whitening())
    with pytest.raises(
        DataError, match=r"got a list_iterator in tests.test_artifacts:Whitening.strength: give the class"
    ):
        check_savable(Whitening(strength=iter([])))
    with pytest.raises(DataError, match="got an object: see"):
        check_savable(object())


def test_a_class_of_the_same_name_is_not_taken_for_ours(tmp_path):
    theirs = dataclass(type("SPARC", (Whitening,), {"__module__": "elsewhere", "__qualname__": "SPARC"}))
    with pytest.raises(ArtifactError, match="holds a 'elsewhere:SPARC'"):
        load(save(theirs(), tmp_path / "x"))


@pytest.mark.parametrize(("path", "kinds"), [(3, ()), (None, ()), ("x", ["SPARC"])])
def test_wrong_types_are_refused(path, kinds):
    with pytest.raises(DataError, match="must be a"):
        load(path, kinds=kinds)


def test_a_failed_write_leaves_the_old_file_and_no_trace(tmp_path):
    target = tmp_path / "value.json"
    write_json(target, {"a": 1})

    def interrupted():
        with atomic_path(target) as temporary:
            temporary.write_text("half")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        interrupted()
    assert json.loads(target.read_text()) == {"a": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["value.json"]
