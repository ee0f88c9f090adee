"""Compiled loops where numba is missing or cannot keep its files; what they compute is tested by who uses them."""

from __future__ import annotations

import sys

import pytest

from sparcal import neighbours
from sparcal.neighbours import _points


def test_works_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    for name in ("_kernels", "_compiled"):
        monkeypatch.delitem(sys.modules, f"sparcal.neighbours.{name}", raising=False)
        monkeypatch.delattr(f"sparcal.neighbours.{name}", raising=False)
    assert _points.compiled_loops() is None


def test_works_where_nothing_can_be_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    from numba.core import caching

    from sparcal.neighbours._compiled import compiled

    def refuse(*_: object) -> None:
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(caching.FunctionCache, "__init__", refuse)

    def double(x: float) -> float:
        return 2 * x

    assert compiled(double)(3.0) == 6.0


def test_small_inputs_do_not_wait_for_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_points, "compiled_loops", lambda: neighbours)
    assert _points.loops_for(_points.TINY) is None
    assert _points.loops_for(_points.TINY + 1) is neighbours


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'closest'; it offers Bank, greedy_coreset, nearest"):
        _ = neighbours.closest
