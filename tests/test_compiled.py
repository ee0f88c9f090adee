"""Compiled loops where numba is missing or cannot keep its files; what they compute is tested by who uses them."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

from sparcal import neighbours
from sparcal.compiled import TINY, compiled, compiled_module
from sparcal.neighbours import _points


def test_works_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    for name in ("neighbours._coreset_kernels", "neighbours._search_kernels", "sparc_kernels"):
        monkeypatch.delitem(sys.modules, f"sparcal.{name}", raising=False)
        assert compiled_module(f"sparcal.{name}") is None


def test_works_where_nothing_can_be_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    from numba.core import caching

    def refuse(*_: object) -> None:
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(caching.FunctionCache, "__init__", refuse)

    def double(x: float) -> float:
        return 2 * x

    assert compiled(double)(3.0) == 6.0


def test_small_inputs_do_not_wait_for_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_points, "compiled_loops", lambda _what: neighbours)
    assert _points.loops_for("search", TINY) is None
    assert _points.loops_for("coreset", TINY + 1) is neighbours


@pytest.mark.parametrize("name", ["neighbours._coreset_kernels", "neighbours._search_kernels", "sparc_kernels"])
def test_loops_find_all_they_call_in_their_own_file(name: str) -> None:
    """numba keeps machine code by the text of one file: a loop from another could change under it unseen."""
    module = import_module(f"sparcal.{name}")
    foreign = {
        key for key, value in vars(module).items() if hasattr(value, "py_func") and value.__module__ != module.__name__
    }
    assert foreign == set()
