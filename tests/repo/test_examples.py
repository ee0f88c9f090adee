"""Every example runs as it says, and the notebooks keep outputs of the kind that running them gives."""

from __future__ import annotations

import ast
import os
import re
import runpy
import shutil
import sys
from collections import Counter
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from sparcal.rendering.line import write_line
from sparcal.station.station import Station

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
LARGEST_BYTES = 200_000
SLOW = ("first_lot", "benchmark_results")  # what they call is in the fast tests too

by_name = pytest.mark.parametrize("path", SCRIPTS + NOTEBOOKS, ids=lambda path: path.name)
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def run_script(name, monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", [name, *map(str, words)])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")


@pytest.fixture
def line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_line(tmp_path / "line", share=0.4, size=96)
    return tmp_path / "line"


def test_a_first_lot(line, monkeypatch, capsys):
    run_script("first_lot.py", monkeypatch, line)
    said = capsys.readouterr().out
    assert "planted defects" in said
    assert re.search(r"part_\d+\.png fails with [\d.]+ \(threshold [\d.]+\), hottest at \d+, \d+", said)

    arriving = line.parent / "arriving"
    shutil.copytree(line / "lot", arriving)
    run_script("watch_folder.py", monkeypatch, "press-3", arriving, 0.5)
    said = capsys.readouterr().out
    assert said.splitlines()[0] == Station.open("press-3").lot().sentence
    assert len(re.findall(r"part_\d+\.png (?:pass|fail) [\d.]+\n", said)) == len(list(arriving.iterdir()))


@pytest.mark.parametrize("name", ["calibrate_features.py", "own_correction.py"])
def test_calibrating_helps(name, monkeypatch, capsys):
    run_script(name, monkeypatch)
    found = {line.split(":")[0]: float(line.split()[-1]) for line in capsys.readouterr().out.splitlines()}
    assert len(found) >= 2
    first, *_, last = found.values()
    assert last > first + 0.05
    assert last == max(found.values())


def test_a_script_is_short_and_says_what_one_sees():
    for path in SCRIPTS:
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 40, path.name
        described = ast.get_docstring(ast.parse(text))
        assert f"python {path.name}" in described
        assert "One sees" in described


def test_the_page_shows_every_script_and_every_notebook_has_a_page():
    page = (ROOT / "docs/tutorials/examples.md").read_text(encoding="utf-8")
    for path in SCRIPTS:
        assert f"{{literalinclude}} ../../examples/{path.name}\n" in page
    for path in NOTEBOOKS:
        own = f"notebook-{path.stem.replace('_', '-')}.md"
        assert f"]({own})" in page
        assert (ROOT / "docs/tutorials" / own).read_text(encoding="utf-8") == f"<!-- notebook: {path.stem} -->\n"


@by_name
def test_nothing_of_the_machine_it_was_made_on_is_kept(path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"/(?:home|root|tmp|Users|work)/", text)


@each_notebook
def test_a_notebook_is_small_and_was_run_from_top_to_bottom(path):
    assert path.stat().st_size < LARGEST_BYTES
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert not [cell.source for cell in cells if cell.metadata], "when a cell ran is a difference that tells nothing"
    assert not [
        one for cell in cells for one in cell.outputs if one.output_type == "error" or one.get("name") == "stderr"
    ]


def kinds(cell):
    """What a cell showed: whether it printed, and how many pages and pictures."""
    printed = any(one.output_type == "stream" for one in cell.outputs)  # in how many pieces is a matter of timing
    return printed, Counter("+".join(sorted(one.data)) for one in cell.outputs if one.output_type != "stream")


@pytest.mark.parametrize(
    "path", [pytest.param(path, id=path.stem, marks=[pytest.mark.slow] * (path.stem in SLOW)) for path in NOTEBOOKS]
)
def test_a_notebook_runs_and_shows_what_it_keeps(path, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    kept = nbformat.read(path, as_version=4)
    again = nbformat.read(path, as_version=4)
    NotebookClient(again, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    for before, after in zip(kept.cells, again.cells, strict=True):
        if before.cell_type == "code":
            assert kinds(after) == kinds(before), before.source
