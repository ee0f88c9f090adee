"""What is saved comes back the same; what is damaged, foreign or of another version is refused in a sentence."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import save_file

from sparcal.artifacts import ARTIFACT_FORMAT, ARTIFACT_HEADER, load, save
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
    with pytest.raises(DataError, match=r"save takes one of .*PatchCore.*, got dict"):
        save({}, tmp_path / "x")


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
