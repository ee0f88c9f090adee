"""How the package hangs together: public names, the direction of imports, and what stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import sparcal

ROOT = Path(sparcal.__file__).parent
OUTER = ("bench", "cli", "server", "integrations")


def imports_of(path):
    """Every module that a file imports anywhere, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_public_names_are_what_they_say():
    assert sorted(sparcal.__all__) == sorted(sparcal._HOMES)
    for name in sparcal.__all__:
        assert getattr(sparcal, name) is not None
    assert len(sparcal.__all__) <= 16
    assert set(dir(sparcal)) == {*sparcal.__all__, "__version__"}


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(AttributeError, match="has no attribute 'Sparc'; it offers CORRECTIONS, DETECTORS"):
        _ = sparcal.Sparc


def test_the_library_never_imports_what_stands_on_it():
    for path in ROOT.rglob("*.py"):
        inside = path.relative_to(ROOT).parts
        if inside[0] in (*OUTER, "__main__.py"):
            continue
        for module in imports_of(path):
            parts = module.split(".")
            assert not (parts[0] == "sparcal" and len(parts) > 1 and parts[1] in OUTER), f"{path} imports {module}"


def test_nothing_pickles_or_evaluates():
    """Catching pickle's error, which torch raises on a foreign file, is the only use of it."""
    forbidden = {
        f"{module}.{name}" for module in ("pickle", "dill", "joblib") for name in ("load", "loads", "dump", "dumps")
    }
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                assert ast.unparse(node.func) not in forbidden | {"eval", "exec"}, path


def test_types_alone_stay_light_enough_for_the_command_line():
    code = "import sys, sparcal.cli.console; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
