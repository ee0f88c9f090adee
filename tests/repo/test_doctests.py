"""Every public name has an example that runs: in its docstring, or in a block of a page that the tests run."""

from __future__ import annotations

import doctest
import re
from functools import reduce
from importlib import import_module
from pathlib import Path

import pytest
import torch

import sparcal
from tests.support.doc_blocks import blocks_of
from tests.support.source_tree import MODULES

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "reference" / "python.md"
LISTED = re.findall(r"^\.\. auto(?:function|class|exception):: (\S+)$", PAGE.read_text(encoding="utf-8"), re.M)
# What somebody meets in an answer or a signature, and does not call by itself.
COMPANIONS = {
    "sparcal.calibration.thresholds.Threshold",
    "sparcal.encoders.spec.EncoderSpec",
    "sparcal.encoders.spec.Recipe",
    "sparcal.export.runner.ExportedModel",
    "sparcal.export.runner.ExportedVerdict",
    "sparcal.imaging.encode.Encoded",
    "sparcal.neighbours.search.Bank",
    "sparcal.station.judgement.Judgement",
    "sparcal.station.judgement.Judgements",
    "sparcal.station.monitor.Monitor",
    "sparcal.station.monitor.ShiftAlarm",
}


def find(name):
    if name.removeprefix("sparcal.") in sparcal.__all__:
        return getattr(sparcal, name.removeprefix("sparcal."))
    module = max((m for m in MODULES if name == m or name.startswith(f"{m}.")), key=len)
    return reduce(getattr, filter(None, name[len(module) + 1 :].split(".")), import_module(module))


def with_example(name):
    return ">>>" in (getattr(find(name), "__doc__", None) or "")


def test_the_page_lists_every_public_name():
    text = PAGE.read_text(encoding="utf-8")
    for name in sparcal.__all__:
        assert f"sparcal.{name}" in LISTED or f"`{name}`" in text, name


@pytest.mark.parametrize("name", sorted({*LISTED, *(f"sparcal.{name}" for name in sparcal.__all__)} - COMPANIONS))
def test_a_public_name_has_an_example(name):
    pages = (
        PAGE,
        DOCS / "how-to" / "export.md",
        DOCS / "how-to" / "bring-your-own.md",
        DOCS / "how-to" / "add-a-dataset.md",
    )
    shown = "\n".join(block.text for page in pages for block in blocks_of(page) if block.language == "python")
    role = name in ("sparcal.types.Encoder", "sparcal.types.Correction", "sparcal.types.Detector")
    assert role or with_example(name) or re.search(rf"\b{name.rpartition('.')[2]}\b", shown), name


@pytest.mark.parametrize("name", [name for name in LISTED if with_example(name)])
def test_the_example_of_a_docstring_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    thing = find(name)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    module = import_module(thing.__module__)
    tests = doctest.DocTestFinder(recurse=False).find(thing, name, module=module, globs=dict(vars(module)))
    assert tests
    assert sum(len(test.examples) for test in tests) > 0
    for test in tests:
        said = []
        assert runner.run(test, out=said.append).failed == 0, "".join(said)
