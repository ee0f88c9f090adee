"""Python loops as machine code, and modules of such loops where numba is installed."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, TypeVar, cast

TINY = 2**22  # below this many values, or differences of values, compiled loops do not repay their import

Loop = TypeVar("Loop", bound=Callable[..., Any])


def compiled(loop: Loop) -> Loop:
    """`loop` as machine code, kept on disk where the installation can be written; the first call imports numba."""
    import numba

    sums = {"reassoc", "contract", "nsz"}  # sums may be reordered, which vectorises them; infinities keep their meaning
    try:
        # numba knows machine code by the name of the loop and the age of its file, though it holds the code of all loops
        # that are called. So the name tells what those from other files are, or a change of them would go unseen.
        loop.__qualname__ += _imported_loops(cast(FunctionType, loop))
        return cast(Loop, numba.njit(cache=True, nogil=True, fastmath=sums)(loop))
    except (RuntimeError, OSError):  # no directory to cache in, or no files to name
        return cast(Loop, numba.njit(nogil=True, fastmath=sums)(loop))


def _imported_loops(loop: FunctionType) -> str:
    """A short digest of the compiled loops that the file of `loop` imports, and of their files; empty without any."""
    from numba.extending import is_jitted

    own = loop.__code__.co_filename
    loops = (value.py_func for value in loop.__globals__.values() if is_jitted(value))
    others = sorted(
        (other.__code__.co_filename, other.__qualname__) for other in loops if other.__code__.co_filename != own
    )
    words = [word for file, name in others for word in (name, Path(file).read_text("utf-8"))]
    return f"_{sha256(repr(words).encode()).hexdigest()[:12]}" if others else ""


def compiled_module(name: str) -> ModuleType | None:
    """The module of compiled loops of that name, or None where numba cannot be imported."""
    try:
        return import_module(name)
    except ImportError:
        return None
