"""`--runtime`: what is unknown, not installed or not the station's is refused in one sentence, before anything is touched."""

from __future__ import annotations

import json

import pytest
import torch

from sparcal.cli import run
from tests.support.tiny_line import fill, fit
from tests.test_runtimes import without

COMMANDS = (
    "fit {lot} --station {root}/new --encoder bundled",
    "fit {lot} --station {station} --add",
    "calibrate {station} {lot} --lot L1",
    "score {station} {lot} --out {root}/out",
    "test {station}",
    "serve {station}",
    "export {station} --out {root}/exported",
    "demo --out {root}/demo",
    "bench run demo --out {root}/results",
)
OPENING = tuple(command for command in COMMANDS if "{station}" in command)


@pytest.fixture(scope="module")
def line(tmp_path_factory):
    root = fill(tmp_path_factory.mktemp("line"))
    assert fit(root) == 0
    return root


def names(folder):
    return sorted(path.relative_to(folder) for path in folder.rglob("*"))


def refused(line, capsys, command, runtime):
    """The sentence of a command that leaves with 2 and touches nothing."""
    before = names(line)
    words = command.format(root=line, station=line / "station", lot=line / "lot").split()
    assert run([*words, "--runtime", runtime]) == 2
    assert names(line) == before
    sentence = capsys.readouterr().err.strip()
    assert "Traceback" not in sentence
    return sentence


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_runtime_is_refused(line, capsys, command):
    sentence = refused(line, capsys, command, "tensorrt")
    assert sentence.endswith("There is no runtime 'tensorrt'; choose from auto, torch, openvino, onnx.")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_runtime_that_is_not_installed_names_its_install_line(line, capsys, monkeypatch, command):
    without(monkeypatch, "openvino")
    sentence = refused(line, capsys, command, "openvino")
    assert sentence.endswith(
        "The runtime openvino needs openvino, which is not installed: run pip install 'sparcal[export]'."
    )


@pytest.mark.parametrize("command", OPENING)
def test_another_runtime_than_the_stations_is_refused(line, capsys, command):
    sentence = refused(line, capsys, command, "onnx")
    assert (
        f"The station {line / 'station'} was fitted with the runtime torch, got onnx: leave --runtime out" in sentence
    )


def test_a_benchmark_has_one_runtime_for_all_its_units(line, capsys):
    assert "needs one runtime for all its units, got auto" in refused(line, capsys, COMMANDS[-1], "auto")


@pytest.mark.parametrize("command", [COMMANDS[0], *COMMANDS[-2:]])
def test_a_compiled_encoder_and_a_card_do_not_go_together(line, capsys, monkeypatch, command):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    sentence = refused(line, capsys, f"{command} --device cuda", "onnx")
    assert sentence.endswith(
        "The runtime onnx computes on the processor, got the device cuda:0: leave one of them out."
    )


def test_a_precision_and_a_compiled_encoder_do_not_go_together(line, capsys):
    command = "fit {lot} --station {root}/new --encoder bundled?precision=bfloat16"
    assert "computes in float32, got the precision bfloat16" in refused(line, capsys, command, "onnx")


def test_from_fit_to_verdicts_with_onnx(tmp_path, capsys):
    root = fill(tmp_path)
    assert fit(root, "--runtime", "onnx") == 0
    assert "--runtime auto" not in capsys.readouterr().err
    station = str(root / "station")
    words = ["calibrate", station, str(root / "normals"), "--lot", "L1", "--correction", "sparc", "--runtime", "onnx"]
    assert run([*words, "--activate"]) == 0
    capsys.readouterr()
    assert run(["score", station, str(root / "lot"), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == len(list((root / "lot").iterdir()))
    assert {row["verdict"] for row in rows} <= {"pass", "fail"}
    assert run(["score", station, str(root / "lot"), "--runtime", "torch"]) == 2
    assert "was fitted with the runtime onnx, got torch" in capsys.readouterr().err


def test_who_names_no_runtime_is_told_that_there_are_others(tmp_path, capsys):
    root = fill(tmp_path)
    assert fit(root) == 0
    assert "openvino or onnx may be faster here: fit another station with --runtime auto" in capsys.readouterr().err


def test_machines_are_told_nothing(tmp_path, capsys):
    root = fill(tmp_path)
    assert fit(root, "--json") == 0
    assert "may be faster" not in "".join(capsys.readouterr())
