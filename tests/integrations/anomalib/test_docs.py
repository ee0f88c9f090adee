"""The script of docs/how-to/anomalib.md, run as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.anomalib_parts import read, render

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "anomalib.md"


@pytest.mark.usefixtures("_offline")
def test_the_script_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert script is not None
    render(tmp_path / "parts" / "train", 10, seed=0, light=0.05)
    render(tmp_path / "parts" / "lot42" / "good", 5, seed=1, light=0.5)
    render(tmp_path / "parts" / "lot42" / "all", 3, seed=2, light=0.5)
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    names: dict[str, Any] = {}
    exec(script.group(1), names)
    printed = capsys.readouterr().out
    assert str(names["report"]) in printed
    assert len(re.findall(r"\.png \d\.\d{3} (good|rejected)\n", printed)) == 3
    image = torch.nn.functional.interpolate(read(tmp_path / "parts" / "lot42" / "all")[:1], size=(128, 128))
    with torch.no_grad():
        line = names["line"].eval()(image)
    edge = names["edge"].predict(image)
    assert float(edge.pred_score.reshape(-1)[0]) == pytest.approx(float(line.pred_score), abs=1e-3)
