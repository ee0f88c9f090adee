"""What the README and the docs show works: code blocks run, named functions exist, links lead somewhere."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest
from PIL import Image

from sparcal.cli import run
from sparcal.hosts import HOSTS
from sparcal.rendering.parts import make_demo

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_the_six_lines_of_the_readme_run(tmp_path, monkeypatch, capsys):
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S).group(1)
    assert len([line for line in code.splitlines() if line.strip()]) <= 6
    parts = make_demo(0, train=6, good=8, bad=6)
    folders = {"train/good": parts.train, "normals": parts.lot_good[:4], "lot": parts.lot_good[4:] + parts.lot_bad}
    for folder, group in folders.items():
        (tmp_path / folder).mkdir(parents=True)
        for part in group:
            Image.fromarray(part.image).save(tmp_path / folder / f"{part.name}.png")
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    assert capsys.readouterr().out.startswith("tensor([")


def test_every_function_of_the_method_page_exists():
    names = re.findall(r"`(sparcal\.[\w.]+)`", (ROOT / "docs/explanation/method.md").read_text())
    assert names
    for name in names:
        module, _, attribute = name.rpartition(".")
        assert callable(getattr(import_module(module), attribute)), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_local_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!http|#)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_hosts_page_names_every_host():
    text = (ROOT / "docs/reference/hosts.md").read_text()
    assert all(name in text or name.replace("anomalyclip-m", "-m") in text for name in HOSTS)


def test_commands_in_the_readme_exist(capsys):
    named = set(re.findall(r"^ {4}sparcal (\w+)", (ROOT / "README.md").read_text(), re.M))
    assert named
    for command in named:
        assert run([command, "--help"]) == 0
        capsys.readouterr()
