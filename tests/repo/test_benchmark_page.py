"""The benchmark page: every experiment is in its list, and the experiment it shows runs."""

from __future__ import annotations

import re
from pathlib import Path

from sparcal.bench.experiments import experiment_titles
from sparcal.cli import run
from tests.support.tiny_bench import COUNTS
from tests.support.trees import write_tree

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "benchmark.md").read_text()


def test_every_experiment_is_listed():
    table = PAGE[PAGE.index("## Which experiment") : PAGE.index("Many experiments share")]
    assert set(re.findall(r"`([\w.-]+)`", table)) == set(experiment_titles())


def test_the_experiment_on_the_page_runs(tmp_path, capsys):
    block = re.search(r"```toml\n(.*?)```", PAGE[PAGE.index("## Your own experiment") :], re.S).group(1)
    (tmp_path / "mine.toml").write_text(block)
    write_tree("folder", tmp_path / "parts", per_split=COUNTS, categories=("alpha",), size=(64, 64))
    options = ["--out", str(tmp_path / "r"), "--cache", str(tmp_path / "c"), "--workers", "1", "--threads", "1"]
    call = ["bench", "run", str(tmp_path / "mine.toml"), "--data", f"folder={tmp_path / 'parts'}"]
    assert (
        run(
            [
                *call,
                *options,
                "--limit-seeds",
                "1",
                "--encoder",
                "timm:test_resnet.r160_in1k?resize=square&size=64",
                "--weights",
                "random:0",
            ]
        )
        == 0
    )
    assert run(["bench", "report", str(tmp_path / "r")]) == 0
    assert "| Method | SPARC base | SPARC +S | SPARC Δ | recentred base |" in capsys.readouterr().out
