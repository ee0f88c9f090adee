"""Runtimes by name: what is there, what is missing, and what an encoder's id says."""

from __future__ import annotations

import pytest

from sparcal import runtimes
from sparcal.errors import DataError, MissingExtraError
from sparcal.runtimes import check_runtime, import_extra, installed_runtimes, runtime_of, with_runtime_word


def without(monkeypatch, *packages):
    there = runtimes._is_there
    monkeypatch.setattr(runtimes, "_is_there", lambda package: package not in packages and there(package))


@pytest.mark.parametrize("name", ["auto", "torch", "openvino", "onnx"])
def test_what_is_installed_may_be_asked_for(name):
    check_runtime(name)


def test_an_unknown_runtime_is_refused():
    with pytest.raises(DataError, match="There is no runtime 'tensorrt'; choose from auto, torch, openvino, onnx"):
        check_runtime("tensorrt")


@pytest.mark.parametrize(
    ("name", "package"), [("openvino", "openvino"), ("onnx", "onnxruntime"), ("onnx", "onnx"), ("onnx", "onnxscript")]
)
def test_a_runtime_that_is_not_installed_names_its_install_line(monkeypatch, name, package):
    without(monkeypatch, package)
    sentence = rf"The runtime {name} needs {package}, which is not installed: run pip install 'sparcal\[export\]'"
    with pytest.raises(MissingExtraError, match=sentence):
        check_runtime(name)
    assert name not in installed_runtimes()
    check_runtime("torch")


def test_nothing_but_torch_may_be_installed(monkeypatch):
    without(monkeypatch, "openvino", "onnxruntime")
    assert installed_runtimes() == ()


def test_an_id_says_what_computes_the_encoder():
    torch_id = "bundled?size=64&weights=sha256-0"
    assert runtime_of(torch_id) == "torch"
    for name in ("openvino", "onnx"):
        assert runtime_of(with_runtime_word(torch_id, name)) == name


def test_a_package_that_is_missing_when_it_is_imported_names_its_install_line():
    with pytest.raises(MissingExtraError, match=r"Cooking needs no_such_pot, .* pip install 'sparcal\[export\]'"):
        import_extra("no_such_pot", "Cooking")
