"""Exact nearest neighbours and the greedy coreset; its three names are loaded when first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparcal.neighbours.coreset import greedy_coreset as greedy_coreset
    from sparcal.neighbours.search import Bank as Bank
    from sparcal.neighbours.search import nearest as nearest

_HOMES = {"Bank": "search", "greedy_coreset": "coreset", "nearest": "search"}

__all__ = ["Bank", "greedy_coreset", "nearest"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'sparcal.neighbours' has no attribute {name!r}; it offers {', '.join(__all__)}")
    value = getattr(import_module(f"sparcal.neighbours.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
