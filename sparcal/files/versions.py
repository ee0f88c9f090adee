"""Which software made something: recorded with every station and lot."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

_PACKAGES = ("torch", "timm", "numpy", "safetensors", "open_clip_torch")


def versions() -> dict[str, str]:
    """sparcal, Python and the packages that decide about numbers."""
    from sparcal import __version__

    recorded = {"sparcal": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            recorded[package] = version(package)
        except PackageNotFoundError:
            continue
    return recorded
