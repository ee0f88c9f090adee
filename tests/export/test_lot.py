"""Exported graphs: equal to torch in both formats, one file set per export, lots replaced without exporting again."""

from __future__ import annotations

import builtins
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from sparcal import load_encoder
from sparcal.cli import run
from sparcal.errors import ArtifactError, DataError, FullDiskError, MissingExtraError
from sparcal.export import lot as export
from sparcal.export import onnx as graphfile
from sparcal.export.lot import export_lot, export_model, export_state
from sparcal.export.lot_state import LotFacts, read_lot_state
from sparcal.export.runner import load_exported, open_graph
from sparcal.files.hashing import file_digest
from sparcal.imaging.preprocess import Preprocess
from sparcal.rendering.parts import make_demo
from sparcal.station.station import Station
from tests.support.lot_models import TINY_RESNET, calibrated, photographs, pixels
from tests.support.tiny_clip import tiny_encoder

FORMATS = ("onnx", "openvino")


@pytest.fixture(scope="module", autouse=True)
def traced_once(tmp_path_factory):
    """Tracing takes seconds and gives the same for every lot of a station, so each signature is traced once."""
    plain, made = graphfile._trace, {}

    def trace(graph, path):
        if graph.signature not in made:
            folder = tmp_path_factory.mktemp("traced")
            plain(graph, folder / path.name)
            made[graph.signature] = folder
        shutil.copytree(made[graph.signature], path.parent, dirs_exist_ok=True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graphfile, "_trace", trace)
        yield plain


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Exports, each made once for all tests."""
    made = {}

    def get(name, format):
        if (name, format) not in made:
            model = calibrated(name)
            folder = tmp_path_factory.mktemp(f"{name}-{format}")
            made[name, format] = model, export_model(model, folder, format=format)
        return made[name, format]

    return get


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", ["patchcore", "padim", "subspacead", "anomalydino"])
def test_exported_equals_torch_on_32_images_one_by_one_and_by_five(exported, name, format):
    model, path = exported(name, format)
    probe = torch.cat([pixels(16, seed=11), pixels(16, seed=12, defects=True)])
    scores, maps = model.score(probe)
    run = open_graph(path)
    for batch in (1, 5):
        parts = [run(part.numpy()) for part in probe.split(batch)]
        out = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
        np.testing.assert_allclose(out["score"], scores.image, rtol=1e-3)
        np.testing.assert_allclose(out["map"], maps, rtol=1e-3)
        np.testing.assert_allclose(out["cells"], scores.cell, rtol=1e-3, atol=1e-3 * float(scores.cell.max()))
        assert out["anomalous"].astype(bool).tolist() == (scores.image > model.threshold).tolist()
    assert 0 < int((scores.image > model.threshold).sum()) < 32


@pytest.mark.slow
@pytest.mark.parametrize("name", ["patchcore-anomalib", "padim-few-channels"])
def test_other_settings_export_too(exported, name):
    model, path = exported(name, "onnx")
    probe = pixels(4, seed=11, defects=True)
    np.testing.assert_allclose(open_graph(path)(probe.numpy())["score"], model.score(probe)[0].image, rtol=1e-3)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", ["patchcore", "padim"])
def test_a_state_file_replaces_the_lot(exported, tmp_path, name, format):
    first, path = exported(name, format)
    second = calibrated(name, lot="L2 ü", reference=7, k=3, seed=9)
    state = export_state(second, tmp_path / "L2.safetensors")
    image = photographs(1, seed=20, defects=True)[0]
    (array, _), before = first.encoder.preprocess(Image.fromarray(image)), load_exported(path).judge(image)
    after = load_exported(path, state=state).judge(image)
    for verdict, model in ((before, first), (after, second)):
        score = float(model.score(array[None])[0].image)
        assert verdict.score == pytest.approx(score, rel=1e-3)
        assert verdict.threshold == pytest.approx(model.threshold, rel=1e-6)
        assert verdict.verdict == ("fail" if score > model.threshold else "pass")
    assert before.score != pytest.approx(after.score, rel=2e-3)
    assert load_exported(path).judge(image).score == before.score
    assert state.stat().st_size < path.parent.joinpath("metadata.json").stat().st_size + 4e6


def test_a_state_file_of_another_station_is_refused(exported, tmp_path):
    _, path = exported("patchcore", "onnx")
    state = export_state(calibrated("anomalydino", lot="other"), tmp_path / "x.safetensors")
    with pytest.raises(DataError, match="The lot 'other' must be of the station .* got a state for another"):
        load_exported(path, state=state)


def test_metadata_says_what_the_model_is(exported):
    model, path = exported("patchcore", "onnx")
    said = json.loads((path.parent / "metadata.json").read_text())
    assert said["lot"]["name"] == "L1"
    assert said["labels"] == ["pass", "fail"]
    assert said["threshold"] == pytest.approx(model.threshold, rel=1e-6)
    assert said["encoder"] == model.encoder.id
    assert said["inputs"] == {"pixels": ["n", 3, 64, 64]}
    assert said["outputs"] == {"score": ["n"], "anomalous": ["n"], "map": ["n", 64, 64], "cells": ["n", 8, 8]}
    assert said["files"] == {"model.onnx": file_digest(path)}
    assert said["state"]["bank"] == ["b", "m", 241]
    assert {"sparcal", "torch", "onnx", "onnxruntime"} <= set(said["versions"])
    assert max(said["difference_from_torch"].values()) < 1e-4
    assert sorted(file.name for file in path.parent.iterdir()) == ["metadata.json", "model.onnx"]


def test_the_same_lot_gives_the_same_bytes(exported, traced_once, tmp_path, monkeypatch):
    model, path = exported("patchcore", "onnx")
    monkeypatch.setattr(graphfile, "_trace", traced_once)
    again = export_model(model, tmp_path)
    assert again.read_bytes() == path.read_bytes()
    assert (tmp_path / "metadata.json").read_bytes() == (path.parent / "metadata.json").read_bytes()
    one, two = (export_state(model, tmp_path / name) for name in ("1.safetensors", "2.safetensors"))
    assert one.read_bytes() == two.read_bytes()


def test_a_graph_over_2_gb_keeps_its_weights_beside_it(tmp_path, monkeypatch):
    monkeypatch.setattr(graphfile, "LARGEST_FILE", 10_000)
    model = calibrated("patchcore")
    path = export_model(model, tmp_path)
    assert path.stat().st_size < (tmp_path / "model.onnx.data").stat().st_size
    assert set(json.loads((tmp_path / "metadata.json").read_text())["files"]) == {"model.onnx", "model.onnx.data"}
    image = photographs(1, seed=20)[0]
    state = export_state(calibrated("patchcore", lot="L2", reference=6, k=2, seed=9), tmp_path / "L2.safetensors")
    assert load_exported(path).lot.name == "L1"
    assert load_exported(path, state=state).judge(image).verdict in ("pass", "fail")


@pytest.mark.parametrize("format", FORMATS)
def test_a_vision_transformer_off_its_own_size_agrees(tmp_path, format):
    """OpenVINO resizes position tables in its own way, so they must have been resized before."""
    spec = "timm:vit_tiny_patch16_224.augreg_in21k?resize=square&size=96&layers=1&norm=0&aggregate=levels"
    encoder = load_encoder(spec, weights="random:0")
    encoder.model.pos_embed.mul_(20)
    path = export_model(calibrated("anomalydino", encoder), tmp_path, format=format)
    assert max(json.loads((path.parent / "metadata.json").read_text())["difference_from_torch"].values()) < 1e-4


@pytest.mark.slow
def test_an_open_clip_encoder_exports(tmp_path):
    encoder = tiny_encoder("resize=square&size=96&layers=2&aggregate=levels&tokens=raw")
    path = export_model(calibrated("subspacead", encoder), tmp_path)
    assert max(json.loads((path.parent / "metadata.json").read_text())["difference_from_torch"].values()) < 1e-4


def test_a_graph_that_disagrees_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(export, "TOLERANCE", 0.0)
    with pytest.raises(ArtifactError, match="must agree with the library to 0 of its largest value, got .*e-"):
        export_model(calibrated("patchcore"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_was_there_stays_when_an_export_fails(tmp_path, monkeypatch):
    (tmp_path / "metadata.json").write_text("old")
    monkeypatch.setattr(graphfile, "_fold", fail)
    with pytest.raises(RuntimeError, match="disk full"):
        export_model(calibrated("patchcore"), tmp_path)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("metadata.json", "old")]


def fail(*_):
    raise RuntimeError("disk full")


def test_an_encoder_that_cannot_be_traced_is_refused(tmp_path):
    class Stubborn:
        id, cell_pixels = "stubborn", 8

        def __init__(self, inner):
            self.inner, self.preprocess = inner, inner.preprocess

        def __call__(self, batch):
            return self.inner(batch * (1.0 if float(batch.sum()) >= 0 else 2.0))

    model = calibrated("patchcore")
    stubborn = Stubborn(model.encoder)
    stubborn.network = model.encoder.model
    with pytest.raises(DataError, match="The encoder stubborn cannot be exported: "):
        export_model(calibrated("patchcore", stubborn), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_each_model_needs_a_folder_of_its_own(exported, tmp_path):
    model, path = exported("patchcore", "onnx")
    with pytest.raises(DataError, match="a folder of its own, got .* with model.onnx in it"):
        export_model(model, path.parent, format="openvino")
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="An export needs a folder, got the file"):
        export_model(model, tmp_path / "file")


def test_other_formats_are_refused(tmp_path):
    with pytest.raises(DataError, match="exported as onnx, openvino or state, got 'tensorrt'"):
        export_model(calibrated("patchcore"), tmp_path, format="tensorrt")


@pytest.mark.parametrize("format", FORMATS)
def test_too_little_room_is_said_before_anything_is_traced(tmp_path, monkeypatch, format):
    def trace(*_):
        raise AssertionError("it was traced")

    monkeypatch.setattr(graphfile, "_trace", trace)
    monkeypatch.setattr("sparcal.files.full_disk.shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000}))
    sentence = r"An exported model needs about [\d.]+ MB at .*out, got 1.0 kB free: make room, or choose a folder on a larger disk\.$"
    with pytest.raises(FullDiskError, match=sentence):
        export_model(calibrated("padim"), tmp_path / "out", format=format)
    assert not (tmp_path / "out").exists()


def test_what_an_export_is_said_to_need_is_enough_and_not_much_more(exported, monkeypatch, tmp_path):
    model, path = exported("padim", "onnx")
    told = []
    monkeypatch.setattr(export, "require_free_room", lambda _, needed, *_words: told.append(needed))
    monkeypatch.setattr(export, "write_record", lambda *_: None)
    export_model(model, tmp_path / "again")
    taken = sum(file.stat().st_size for file in path.parent.iterdir())
    assert taken <= told[0] <= 2 * taken, "layers that the lot does not need are counted, but not exported"


@pytest.mark.parametrize(("package", "format"), [("onnx", "onnx"), ("onnxscript", "onnx"), ("openvino", "openvino")])
def test_a_missing_extra_names_its_install_line(traced_once, tmp_path, monkeypatch, package, format):
    without(monkeypatch, package)
    monkeypatch.setattr(graphfile, "_trace", traced_once)
    with pytest.raises(MissingExtraError, match=rf"needs {package}, .* pip install 'sparcal\[export\]'"):
        export_model(calibrated("patchcore"), tmp_path / "out", format=format)


def without(monkeypatch, package):
    plain = builtins.__import__

    def imports(name, *rest):
        if name.split(".")[0] == package:
            raise ImportError(name)
        return plain(name, *rest)

    monkeypatch.setattr(builtins, "__import__", imports)


def test_the_state_holds_what_the_lot_decided(tmp_path):
    model = calibrated("padim")
    state = read_lot_state(export_state(model, tmp_path / "L1.safetensors"))
    assert state.facts == LotFacts("L1")
    assert state.threshold == pytest.approx(model.threshold, rel=1e-6)
    np.testing.assert_array_equal(state.arrays["sparc_mean"], model.calibrated.correction.mean_[0])
    np.testing.assert_array_equal(state.arrays["sparc_basis"], model.calibrated.correction.basis_[0])
    np.testing.assert_array_equal(state.arrays["channels"], model.calibrated.detector.channels_)
    assert state.arrays["gaussian_whitener"].shape == (8, 8, 9, 240)


def write_parts(root):
    """Folders as a factory has them: training parts, and two lots with their good parts."""
    parts = make_demo(0, train=10, good=6, bad=2)
    folders = {
        "train": parts.train,
        "lot42/good": parts.lot_good[:4],
        "lot43/good": parts.lot_good[1:4],
        "lot43/all": parts.lot_good[4:] + parts.lot_bad,
    }
    for folder, group in folders.items():
        (root / folder).mkdir(parents=True)
        for part in group:
            Image.fromarray(part.image).save(root / folder / f"{part.name}.png")


@pytest.fixture(scope="module")
def station(tmp_path_factory):
    """A station with two lots, of the tiny network."""
    root = tmp_path_factory.mktemp("factory")
    write_parts(root)
    made = Station.fit(root / "train", encoder=TINY_RESNET, weights="random:0", path=root / "station")
    made.calibrate(root / "lot42/good", name="L42", correction="sparc")
    made.calibrate(root / "lot43/good", name="L43/\u00fc")
    return made


def test_an_exported_lot_judges_as_the_lot_does(station, tmp_path):
    lot = station.lot("L42")
    images = sorted((station.path.parent / "lot43/all").iterdir())
    loaded = load_exported(export_lot(lot, tmp_path / "L42"))
    for path, expected in zip(images, lot.score(images), strict=True):
        verdict = loaded.judge(path)
        assert verdict.score == pytest.approx(expected.score, rel=1e-3)
        assert (verdict.verdict, verdict.threshold) == (expected.verdict, pytest.approx(expected.threshold))
        np.testing.assert_allclose(loaded.draw(verdict), expected.heat(), rtol=1e-3)
    with pytest.raises(DataError, match="must have 256 x 256 colour pixels"):
        loaded.judge(np.zeros((64, 64, 3), np.uint8))
    said = json.loads((tmp_path / "L42/metadata.json").read_text())
    assert said["compared_on"] == "4 images"
    assert said["lot"]["pixel_threshold"] == lot.pixel_threshold.value


def test_the_own_reference_of_a_station_exports(station, tmp_path):
    own = station.own()
    images = sorted((station.path.parent / "lot43/all").iterdir())
    expected = own.score(images[0])[0].score
    state = export_lot(own, tmp_path / "own.safetensors", format="state")
    whole = load_exported(export_lot(own, tmp_path / "own"))
    replaced = load_exported(export_lot(station.lot("L42"), tmp_path / "L42"), state=state)
    for loaded in (whole, replaced):
        assert loaded.lot.name is None
        assert loaded.judge(images[0]).score == pytest.approx(expected, rel=1e-3)


def test_lots_of_images_in_memory_are_compared_on_those_that_were_kept(tmp_path):
    station = Station.fit(photographs(6, seed=0), encoder=TINY_RESNET, weights="random:0", path=tmp_path / "station")
    path = export_lot(station.calibrate(photographs(3, seed=1), name="L"), tmp_path / "L")
    assert json.loads((path.parent / "metadata.json").read_text())["compared_on"] == "4 images"


def test_the_input_size_follows_the_images_where_the_encoder_leaves_it_open():
    free = Preprocess(size=64, resize="short")
    assert export._input_size(free, [(72, 90, False)]) == (64, 80)
    assert export._input_size(free, [(72, 90, False), (72, 90, True)]) == (64, 80)
    assert export._input_size(free, [(72, 90, False), (72, 72, False)]) is None
    assert export._input_size(Preprocess(size=64, crop=32), [(72, 90, False), (72, 72, False)]) == (32, 32)


def test_the_command_writes_a_graph_and_a_state(station, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run([*command(station), "--lot", "L42", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["lot"], said["format"], said["path"]) == ("L42", "onnx", "L42-onnx/model.onnx")
    assert said["files"] == ["L42-onnx/metadata.json", "L42-onnx/model.onnx"]
    assert said["difference_from_torch"]["score"] < 1e-4
    assert run([*command(station), "--lot", "L43/\u00fc", "--format", "state"]) == 0
    assert "L43%2F%C3%BC.safetensors" in capsys.readouterr().out
    assert load_exported(said["path"], state=tmp_path / "L43%2F%C3%BC.safetensors").lot.name == "L43/\u00fc"


def test_the_command_refuses_in_one_sentence(station, tmp_path, capsys):
    assert run([*command(station), "--lot", "none"]) == 2
    assert "has no lot 'none'; it has L42, L43/\u00fc." in capsys.readouterr().err
    assert run([*command(station), "--format", "tensorrt"]) == 2
    assert "is not one of 'onnx', 'openvino', 'state'" in capsys.readouterr().err
    assert run([*command(station), "--weights", str(tmp_path / "gone.pt")]) == 2
    assert "were expected in the file" in capsys.readouterr().err
    assert run(["export", str(tmp_path / "nothing")]) == 2
    assert "There is no station at" in capsys.readouterr().err


def command(station):
    return ["export", str(station.path)]


def test_the_script_of_the_export_page_runs(tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[2] / "docs/how-to/export.md").read_text()
    (script,) = re.findall(r"```python\n(.*?)```", page, re.S)
    write_parts(tmp_path / "parts")
    monkeypatch.chdir(tmp_path)
    exec(script, {})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert all(line.split()[2] in ("pass", "fail") for line in lines)
