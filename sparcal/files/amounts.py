"""Bytes as people say them: never 0.0 GB where there is something."""

from __future__ import annotations

_UNITS = ("bytes", "kB", "MB", "GB", "TB")


def amount(size: float) -> str:
    """A number of bytes in the unit that fits it: 512 bytes, 49 kB, 1.2 GB."""
    unit = 0
    while round(size) >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.1f} {_UNITS[unit]}" if unit > 0 and size < 10 else f"{size:.0f} {_UNITS[unit]}"
