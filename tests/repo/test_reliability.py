"""The table of what the suite tried to break: counted from what pytest says, and never better than it was."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from speed.studies import reliability as study
from speed.studies.reliability_sheets import CHAPTERS, SHEETS, Sheet

ROOT = Path(__file__).parents[2]
TESTS = """
import pytest

@pytest.mark.parametrize("n", [3, 4])
def test_kills(n, record_property):
    record_property("tried", n)
    record_property("ended", "early")

@pytest.mark.parametrize("kind", ["record", "folds"])
@pytest.mark.parametrize("command", ["lots", "score"])
def test_damage(kind, command, record_property):
    for name, value in (("kind", kind), ("damage", "deleted"), ("command", command)):
        record_property(name, value)
    assert (kind, command) != ("folds", "score")
    record_property("ended", "refused" if kind == "record" else "as before")

@pytest.mark.slow
def test_long():
    pass

def test_no_disk():
    pytest.skip("only root may")

@pytest.fixture
def broken():
    raise OSError

def test_unmade(broken):
    pass
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    root = tmp_path_factory.mktemp("tree")
    (root / "test_it.py").write_text(TESTS)
    (root / "pytest.ini").write_text("[pytest]\nmarkers = slow: long\nfilterwarnings = error\n")
    return root


def sheets(*names):
    return [Sheet("Damage" if "damage" in name else "Kills", name, "it holds", f"test_it.py::{name}", "kills") for name in names]  # fmt: skip


def test_what_was_tried_is_counted_and_a_failure_is_said(tree, tmp_path):
    asked = sheets("test_kills", "test_long", "test_no_disk", "test_unmade", "test_damage")
    found = study.measure(asked, tmp_path, slow=False, root=tree)
    told = {sheet.done: study.result(cases, slow=False) for sheet, cases in found.items()}
    assert told == {
        "test_kills": ("7", "held; early (2)"),
        "test_long": ("0", "not run: slow"),
        "test_no_disk": ("0", "1 not run: only root may"),
        "test_unmade": ("1", "FAILED in 1 of 1 cases"),
        "test_damage": ("4", "FAILED in 1 of 4 cases; refused (2); as before (1)"),
    }
    text = study.page(found, slow=False)
    assert "| record | 2 + 0 |" in text
    assert "| folds | 0 + 1, FAILED 1 |" in text
    assert "Commands: `lots`, `score`." in text
    assert "5 cases held, 2 failed" in text
    assert "| test_kills | 7 | it holds | held; early (2) | `test_kills` in test_it.py |" in text
    (tree / "test_it.py").rename(tree / "test_away.py")
    assert study.measure(asked, tmp_path, slow=False, root=tree) == found, "kept for the next run"
    (tree / "test_away.py").rename(tree / "test_it.py")


def test_slow_ones_are_run_when_asked_for_and_a_missing_one_is_no_success(tree, tmp_path):
    found = study.measure(sheets("test_long"), tmp_path, slow=True, root=tree)
    assert [study.result(cases, slow=True) for cases in found.values()] == [("1", "held")]
    assert study.result([], slow=True) == ("0", "FAILED: the test is not there")
    with pytest.raises(SystemExit, match=r"pytest could not run test_it.py, it left with 4"):
        study.measure(sheets("test_gone"), tmp_path / "..", slow=True, root=tree)


def test_every_sheet_names_a_test_of_the_suite():
    for sheet in SHEETS:
        tree = ast.parse((ROOT / sheet.file).read_text(encoding="utf-8"))
        assert sheet.function in [node.name for node in tree.body if isinstance(node, ast.FunctionDef)], sheet.test
    assert tuple(dict.fromkeys(sheet.chapter for sheet in SHEETS)) == CHAPTERS


@pytest.mark.parametrize(("holds", "code"), [(True, 0), (False, 1)])
def test_the_command_leaves_with_1_where_anything_failed(tmp_path, monkeypatch, holds, code):
    asked = sheets("test_kills") if holds else sheets("test_kills", "test_damage")
    kept = {sheet: [study.Case("f", "passed" if holds else "failed", {})] for sheet in asked}
    monkeypatch.setattr(study, "measure", lambda *_args, **_named: kept)
    monkeypatch.setattr("sys.argv", ["reliability", "--write", str(tmp_path / "page.md")])
    with pytest.raises(SystemExit) as left:
        study.main()
    assert left.value.code == code
    assert ("FAILED in" in (tmp_path / "page.md").read_text(encoding="utf-8")) is not holds
