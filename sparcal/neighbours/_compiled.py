"""Python loops as machine code; importing this file imports numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Loop = TypeVar("Loop", bound=Callable[..., Any])


def compiled(loop: Loop) -> Loop:
    """`loop` as machine code, kept on disk where the installation can be written."""
    sums = {"reassoc", "contract", "nsz"}  # sums may be reordered, which vectorises them; infinities keep their meaning
    try:
        return cast(Loop, numba.njit(cache=True, nogil=True, fastmath=sums)(loop))
    except RuntimeError:  # no directory to cache in
        return cast(Loop, numba.njit(nogil=True, fastmath=sums)(loop))
