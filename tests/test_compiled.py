"""Compiled loops where numba is missing or cannot keep its files; what they compute is tested by who uses them."""

from __future__ import annotations

import sys
from importlib import import_module, invalidate_caches
from pathlib import Path

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


def test_a_loop_is_compiled_anew_when_one_that_it_calls_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    start = "from sparcal.compiled import compiled\n"
    loop = "@compiled\ndef {}(x):\n    return {}\n"
    texts = {
        "called": start + loop.format("inner", "x + 1"),
        "between": start + "from called import inner\n" + loop.format("middle", "inner(x)"),
        "caller": start + "from between import middle\n" + loop.format("outer", "middle(x)"),
    }

    def result() -> int:
        for name in texts:
            monkeypatch.delitem(sys.modules, name, raising=False)
        invalidate_caches()
        found: int = import_module("caller").outer(1)
        return found

    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
    assert result() == 2
    kept = {path.name for path in tmp_path.rglob("*.nbc")}
    assert len(kept) == 3
    assert result() == 2
    assert {path.name for path in tmp_path.rglob("*.nbc")} == kept  # nothing is compiled twice
    (tmp_path / "called.py").write_text(start + loop.format("inner", "x + 1000"))
    assert result() == 1001
