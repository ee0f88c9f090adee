"""The runner of exported models: no torch, the same pixels as the library, and refusals in one sentence."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from sparcal.errors import ArtifactError, DataError, MissingExtraError
from sparcal.export import runner
from sparcal.export.lot import export_model, export_state
from sparcal.export.lot_state import LotFacts
from sparcal.export.runner import load_exported, main, save_map
from sparcal.files.json_record import write_record
from sparcal.imaging.maps import native_map, outside_value
from sparcal.imaging.preprocess import Preprocess
from sparcal.imaging.read import read_batches
from tests.support.lot_models import calibrated, photographs

# What an edge machine has: numpy, Pillow, onnxruntime, and nothing else that sparcal uses.
BARE = """
import runpy, sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "cv2", "scipy", "sklearn", "timm", "typer", "rich", "numba", "onnx", "safetensors"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refuse())
sys.argv = ["sparcal.export.lot", *sys.argv[1:]]
try:
    runpy.run_module("sparcal.export.lot", run_name="__main__", alter_sys=True)
finally:
    print("torch" in sys.modules, file=sys.stderr)
"""


@pytest.fixture(scope="module")
def model():
    return calibrated("patchcore")


@pytest.fixture(scope="module")
def exported(model, tmp_path_factory):
    return export_model(model, tmp_path_factory.mktemp("exported"))


def test_onnxruntime_takes_the_cores_of_this_process(exported, monkeypatch):
    """Left alone, it starts a thread for every core of the machine, whatever the process may use."""
    onnxruntime = pytest.importorskip("onnxruntime")
    asked = []

    class Options(onnxruntime.SessionOptions):
        def __setattr__(self, name, value):
            super().__setattr__(name, value)
            if name == "intra_op_num_threads":
                asked.append(value)

    monkeypatch.setattr(onnxruntime, "SessionOptions", Options)
    monkeypatch.setattr(runner, "core_count", lambda: 1)
    load_exported(exported)
    assert asked == [1]


@pytest.fixture(scope="module")
def part(tmp_path_factory):
    path = tmp_path_factory.mktemp("images") / "part.png"
    Image.fromarray(photographs(1, seed=20, defects=True)[0]).save(path)
    return path


def copy_of(exported, folder):
    return shutil.copytree(exported.parent, folder / "copy") / exported.name


def test_it_runs_where_there_is_no_torch(model, exported, part, tmp_path):
    heat = tmp_path / "heat.npy"
    command = [sys.executable, "-W", "error", "-c", BARE, "run", str(exported), str(part), "--map", str(heat)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "False\n"
    said = json.loads(done.stdout)
    batch = next(read_batches([part], model.encoder.preprocess))
    scores, _ = model.score(batch.pixels)
    assert said["score"] == pytest.approx(float(scores.image), rel=1e-3)
    assert said["threshold"] == pytest.approx(model.threshold, rel=1e-6)
    assert said["verdict"] == "fail"
    assert (said["lot"], said["path"], said["map"]) == ("L1", str(part), str(heat))
    expected = native_map(
        scores.cell[0], model.calibrated.detector.map_rule, batch.geometries[0], outside=outside_value(scores.cell)
    )
    np.testing.assert_allclose(np.load(heat), expected, rtol=1e-3)


@pytest.mark.parametrize(
    "preprocess",
    [
        Preprocess(size=48, crop=40),
        Preprocess(size=40, resize="pad", resample="lanczos", order="bgr"),
        Preprocess(size=50, resize="square", multiple=14, resample="bicubic", scale=1.0),
    ],
)
def test_the_graph_is_fed_what_the_encoder_was_fed(preprocess, part):
    batch = next(read_batches([part], preprocess))
    array, geometry = preprocess.array(Image.open(part))
    np.testing.assert_array_equal(array, batch.pixels[0])
    assert array.dtype == np.float32
    assert geometry == batch.geometries[0]


def test_the_exported_model_keeps_its_preprocessing(model, exported):
    loaded = load_exported(exported)
    assert loaded.preprocess == model.encoder.preprocess
    assert loaded.map_rule == model.calibrated.detector.map_rule


def test_several_images_are_one_line_each(exported, part, capsys):
    assert main(["run", str(exported), str(part), str(part)]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["path"] for line in lines] == [str(part)] * 2
    assert lines[0]["map"] is None


def test_a_state_file_on_the_command_line(exported, part, tmp_path, capsys):
    second = calibrated("patchcore", lot="L2", reference=7, k=3, seed=9)
    state = export_state(second, tmp_path / "L2.safetensors")
    assert main(["run", str(exported), str(part), "--state", str(state)]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["lot"] == "L2"
    assert said["threshold"] == pytest.approx(second.threshold, rel=1e-6)


def test_errors_are_one_sentence_and_exit_code_1(exported, tmp_path, capsys):
    assert main(["run", str(exported), str(tmp_path / "none.png")]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert (
        err
        == f"Error: {tmp_path / 'none.png'} must be a readable PNG, JPEG, BMP, TIFF or WebP image, got no file of that name: check the path.\n"
    )


def test_a_map_is_of_one_image(exported, part, capsys):
    with pytest.raises(SystemExit) as leaving:
        main(["run", str(exported), str(part), str(part), "--map", "x.npy"])
    assert leaving.value.code == 2
    assert "--map takes one image, got 2" in capsys.readouterr().err


def test_maps_as_files(tmp_path):
    heat = np.array([[0.0, 1.0], [2.0, 9.0]], dtype=np.float32)
    for name in ("a.npy", "a.tiff", "a.png"):
        save_map(heat, tmp_path / name, threshold=1.0)
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), heat)
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "a.tiff")), heat)
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "a.png")), [[0, 128], [255, 255]])
    with pytest.raises(DataError, match="written as .npy, .tiff or .png, got a.bmp"):
        save_map(heat, tmp_path / "a.bmp", threshold=1.0)
    with pytest.raises(DataError, match="needs a threshold above 0, got -1"):
        save_map(heat, tmp_path / "a.png", threshold=-1.0)


def test_a_changed_model_is_refused(exported, tmp_path):
    path = copy_of(exported, tmp_path)
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(ArtifactError, match="model.onnx does not match the hash in metadata.json"):
        load_exported(path)


def test_a_missing_file_is_refused(exported, tmp_path):
    with pytest.raises(ArtifactError, match="An exported model was expected at .*nothing.onnx, got no file"):
        load_exported(tmp_path / "nothing.onnx")
    path = copy_of(exported, tmp_path)
    record = json.loads((path.parent / "metadata.json").read_text())
    record["files"]["model.onnx.data"] = "0" * 64
    write_record(path.parent / "metadata.json", "export", {k: v for k, v in record.items() if k != "digest"})
    with pytest.raises(ArtifactError, match="needs .*model.onnx.data, got no such file: copy the whole folder"):
        load_exported(path)


def test_metadata_of_another_model_is_refused(exported, tmp_path):
    path = copy_of(exported, tmp_path)
    other = path.rename(path.with_name("other.onnx"))
    with pytest.raises(ArtifactError, match="describes model.onnx, got other.onnx"):
        load_exported(other)


def test_metadata_without_a_field_is_refused(exported, tmp_path):
    path = copy_of(exported, tmp_path)
    record = json.loads((path.parent / "metadata.json").read_text())
    kept = {name: value for name, value in record.items() if name not in ("labels", "digest")}
    write_record(path.parent / "metadata.json", "export", kept)
    with pytest.raises(ArtifactError, match="metadata.json lacks or mistakes 'labels'"):
        load_exported(path)


def test_an_image_of_another_camera_is_refused(exported):
    loaded = load_exported(exported)
    strict = replace(loaded, lot=LotFacts("L1", kinds=((72, 90, False),)))
    assert strict.judge(photographs(1, seed=20)[0]).verdict in ("pass", "fail")
    with pytest.raises(DataError, match="The image must have 72 x 90 colour pixels .* got 72 x 91 grey pixels"):
        strict.judge(np.zeros((72, 91, 3), np.uint8))
    many = replace(loaded, lot=LotFacts("L1", kinds=tuple((72, w, False) for w in range(80, 85))))
    assert many.judge(np.zeros((72, 91, 3), np.uint8)).verdict in ("pass", "fail")


def test_unseen_pixels_get_the_value_of_the_lot(exported):
    loaded = replace(load_exported(exported), preprocess=Preprocess(size=80, crop=64))
    verdict = loaded.judge(photographs(1, seed=20)[0])
    assert loaded.draw(verdict)[0, 0] < verdict.cells.min()
    assert replace(loaded, lot=LotFacts("L1", outside=-7.0)).draw(verdict)[0, 0] == -7.0


def test_an_image_of_another_shape_is_refused(exported):
    loaded = load_exported(exported)
    free = replace(loaded, preprocess=Preprocess(size=64), size=(64, 96))
    with pytest.raises(DataError, match="takes an input of 64 x 96, got an image of 100 x 100 that gives 64 x 64"):
        free.judge(np.zeros((100, 100, 3), np.uint8))


@pytest.mark.parametrize(("package", "name"), [("onnxruntime", "m.onnx"), ("openvino", "m.xml")])
def test_a_missing_runtime_names_its_install_line(tmp_path, monkeypatch, package, name):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"needs {package}, .* pip install 'sparcal\[export\]'"):
        runner.open_graph(tmp_path / name)


def test_16_bit_images_need_opencv(tmp_path, monkeypatch):
    Image.fromarray(np.full((8, 8), 40_000, np.uint16)).save(tmp_path / "deep.png")
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(MissingExtraError, match="A 16-bit image needs OpenCV"):
        runner.open_image(tmp_path / "deep.png")
