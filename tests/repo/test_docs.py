"""What the README and the site show works: code blocks run or say why not, named functions exist, links lead somewhere."""

from __future__ import annotations

import re
import shutil
from importlib import import_module
from pathlib import Path

import pytest

from sparcal.cli import run
from sparcal.hosts import HOSTS
from sparcal.rendering.line import write_line
from tests.support.doc_blocks import DIRECTIVES, RUN, SHOWN, blocks_of, run_blocks

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TO_RUN = [page for page in PAGES if any(block.language in RUN and block.reason is None for block in blocks_of(page))]

# What every walk begins with is done once, by these very commands; a page that begins later says where.
PARTS = "sparcal parts line/"
FIT = "sparcal fit line/train/good --station press-3 --encoder bundled --operator Ada"
CALIBRATE = "sparcal calibrate press-3 line/normals --lot L42 --operator Ada"
STARTS = ("photographs", "station", "lot")
# Each fits or calibrates once more; what they call is in the fast tests too.
SLOW = (
    "docs/how-to/host-and-encoder.md",
    "docs/how-to/threshold.md",
    "docs/tutorials/first-lot-python.md",
    "docs/tutorials/new-lamp.md",
)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.fixture(scope="session")
def started(tmp_path_factory):
    """Half as many, smaller photographs than `sparcal parts` renders; a station, fitted; the same, calibrated."""
    here = tmp_path_factory.mktemp("docs")
    write_line(here / "line", share=0.5, size=96)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        assert run(FIT.split()[1:]) == 0
        shutil.copytree("press-3", "station")
        assert run(CALIBRATE.split()[1:]) == 0
        Path("press-3").rename("lot")
    return here


def pages_to_run():
    for page in TO_RUN:
        name = name_of(page)
        yield pytest.param(page, id=name, marks=[pytest.mark.slow] if name in SLOW else [])


@pytest.mark.parametrize("page", list(pages_to_run()))
def test_the_blocks_of_a_page_run(page, started, tmp_path, monkeypatch):
    start = re.search(r"<!-- starts with: (\w+) -->", page.read_text(encoding="utf-8"))
    place = start.group(1) if start else "lot"
    assert place in STARTS
    (tmp_path / "line").symlink_to(started / "line")
    if place != "photographs":
        shutil.copytree(started / place, tmp_path / "press-3")
    monkeypatch.chdir(tmp_path)
    run_blocks(blocks_of(page), done=(PARTS, FIT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_runs_or_says_why_not(page):
    for block in blocks_of(page):
        assert block.language in (*RUN, *SHOWN, *DIRECTIVES), f"{page.name}: a block in {block.language!r}"
        assert block.reason is None or len(block.reason) > 5
    assert not re.search(r"\n\n {4}\S", outside_blocks(page)), f"{page.name}: an indented block; put it between fences"


def outside_blocks(page: Path) -> str:
    return re.sub(r"^[ \t]*```.*?^[ \t]*```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)


def test_the_readme_is_short_and_shows_the_picture_first():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 100
    assert text.index("docs/pictures/before_after.jpg") < text.index("```")
    code = next(block.text for block in blocks_of(ROOT / "README.md") if block.language == "python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 6


def test_every_function_of_the_method_page_exists():
    names = re.findall(r"`(sparcal\.[\w.]+)`", (ROOT / "docs/explanation/method.md").read_text())
    assert names
    for name in names:
        module, _, attribute = name.rpartition(".")
        assert callable(getattr(import_module(module), attribute)), name


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_local_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!http|#)([^)#]+)", outside_blocks(page)):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_hosts_page_names_every_host():
    text = (ROOT / "docs/reference/hosts.md").read_text()
    assert all(name in text or name.replace("anomalyclip-m", "-m") in text for name in HOSTS)
