"""`--device`: what is not there is refused in one sentence, before anything is touched."""

from __future__ import annotations

import pytest
import torch

from sparcal.cli import run
from tests.support.tiny_line import fill, fit


@pytest.fixture(scope="module")
def line(tmp_path_factory):
    root = fill(tmp_path_factory.mktemp("line"))
    assert fit(root) == 0
    return root


def names(folder):
    return sorted(path.relative_to(folder) for path in folder.rglob("*"))


@pytest.mark.parametrize(
    "command",
    [
        "fit {lot} --station {root}/new --encoder bundled",
        "fit {lot} --station {station} --add",
        "calibrate {station} {lot} --lot L1",
        "score {station} {lot} --out {root}/out",
        "test {station}",
        "serve {station}",
        "export {station} --out {root}/exported",
        "demo --out {root}/demo",
        "bench run demo --out {root}/results",
    ],
)
def test_a_card_that_is_not_there_is_refused_and_nothing_is_touched(line, capsys, monkeypatch, command):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    before = names(line)
    words = command.format(root=line, station=line / "station", lot=line / "lot").split()
    assert run([*words, "--device", "cuda"]) == 2
    assert (
        capsys.readouterr()
        .err.strip()
        .endswith(
            "The device cuda needs a graphics card that PyTorch can use, got none on this machine: choose cpu, or auto for "
            "what there is."
        )
    )
    assert names(line) == before


def test_a_device_of_no_known_name_is_refused(line, capsys):
    assert run(["score", str(line / "station"), str(line / "lot"), "--device", "gpu"]) == 2
    assert "There is no device 'gpu'; choose from auto, cpu, cuda, cuda:NUMBER, mps." in capsys.readouterr().err
