"""The map at the door is true: its rooms are those of the test, its files and functions exist."""

from __future__ import annotations

import re
from functools import reduce
from importlib import import_module
from pathlib import Path

import pytest

from tests.repo.test_architecture import INNER, ROOMS
from tests.support.source_tree import MODULES

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
PAGE = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")


def test_the_rooms_are_those_of_the_package_in_order():
    table = PAGE[PAGE.index("| rooms |") : PAGE.index("`sparcal/server` has rooms")]
    lines = [tuple(re.findall(r"`(\w+)`", line.split("|")[1])) for line in table.splitlines()[2:] if line]
    assert lines == [line for line in ROOMS if line != ("__main__",)]


def test_the_inner_rooms_are_named():
    inner = PAGE[PAGE.index("`sparcal/server` has rooms") : PAGE.index("## The way of an image")]
    for outer, lines in INNER.items():
        for room in (room for line in lines for room in line if room != "experiments"):
            assert f"`{room}`" in inner, f"{outer}.{room}"


def test_the_page_fits_on_a_page():
    assert len(PAGE.splitlines()) <= 70


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_that_pages_name_exist(page):
    text = page.read_text(encoding="utf-8")
    for name in re.findall(r"`((?:sparcal|tests|speed|docs)/[\w./-]*)`", text):
        assert (ROOT / name).exists(), f"{page.name} names {name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_functions_that_pages_name_exist(page):
    for name in re.findall(r"`(sparcal(?:\.\w+)+)`", page.read_text(encoding="utf-8")):
        if name.startswith("sparcal.integrations.anomalib"):
            continue  # anomalib is installed in an environment of its own
        module = max((m for m in MODULES if name == m or name.startswith(f"{m}.")), key=len)
        reduce(getattr, filter(None, name[len(module) + 1 :].split(".")), import_module(module))
