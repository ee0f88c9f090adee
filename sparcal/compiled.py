"""Python loops as machine code, and modules of such loops where numba is installed."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar, cast

TINY = 2**22  # below this many values, or differences of values, compiled loops do not repay their import

Loop = TypeVar("Loop", bound=Callable[..., Any])


def compiled(loop: Loop) -> Loop:
    """`loop` as machine code, kept on disk where the installation can be written; the first call imports numba."""
    import numba

    sums = {"reassoc", "contract", "nsz"}  # sums may be reordered, which vectorises them; infinities keep their meaning
    try:
        return cast(Loop, numba.njit(cache=True, nogil=True, fastmath=sums)(loop))
    except RuntimeError:  # no directory to cache in
        return cast(Loop, numba.njit(nogil=True, fastmath=sums)(loop))


def compiled_module(name: str) -> ModuleType | None:
    """The module of compiled loops of that name, or None where numba cannot be imported."""
    try:
        return import_module(name)
    except ImportError:
        return None
