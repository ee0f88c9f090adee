"""How much memory is free, so that too large a task is refused before it is begun and not killed within."""

from __future__ import annotations

import os
from pathlib import Path

from sparcal.errors import DataError

_GIGABYTE = 1e9


def available_bytes() -> int | None:
    """Memory that a process could still take, or None where the system does not say."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None


def require_memory(needed: int, what: str, remedy: str) -> None:
    """A DataError if `needed` bytes are more than this machine has free."""
    free = available_bytes()
    if free is not None and needed > free:
        raise DataError(
            f"{what} needs about {needed / _GIGABYTE:.1f} GB of memory, got {free / _GIGABYTE:.1f} GB free: {remedy}."
        )
