"""What other packages add to sparcal: an entry point in one of these groups joins the registry of its kind.

    [project.entry-points."sparcal.detectors"]
    nearest-mean = "my_package:NearestMean"

| group | an entry is | and appears in |
|---|---|---|
| `sparcal.encoders` | a function `(spec, *, weights, recipe)` that loads `NAME:MODEL?settings` | `sparcal encoders` |
| `sparcal.detectors` | a detector's class | `sparcal detectors` |
| `sparcal.corrections` | a `CorrectionFacts`, or a correction's class | `sparcal corrections` |
| `sparcal.hosts` | a `Host` | `sparcal hosts` |
| `sparcal.datasets` | a `Dataset` | `sparcal bench datasets` |

A plug-in takes no name that is taken. One that cannot be used is left out with a warning that names it and says why:
nothing else suffers from it. `sparcal.testing` holds the checks that every entry should pass.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from sparcal.errors import DataError

ENCODER_GROUP = "sparcal.encoders"

Thing = TypeVar("Thing")


class PluginWarning(UserWarning):
    """A plug-in of another package is left out; its text is one sentence for a person."""


def plugin_packages(group: str, taken: Iterable[str] = ()) -> dict[str, str]:
    """The package and version behind each plug-in's name, without the names that are `taken`; nothing is imported."""
    return {point.name: _package(point) for point in entry_points(group=group) if point.name not in set(taken)}


def plugins(group: str, taken: Iterable[str], accept: Callable[[object], Thing]) -> dict[str, Thing]:
    """What installed packages offer in a group, by name.

    Args:
        taken: names that plug-ins cannot have.
        accept: makes an entry of the registry from what the entry point names, or refuses it with a `DataError`.
    """
    names, found = set(taken), {}
    for point in entry_points(group=group):
        try:
            if point.name in names:
                raise DataError(f"the name {point.name!r} is taken")
            found[point.name] = accept(point.load())
            names.add(point.name)
        except Exception as error:  # whatever a foreign package does wrong, it must not take sparcal down
            warnings.warn(_sentence(group, point, error), PluginWarning, stacklevel=2)
    return found


def load_plugin(group: str, name: str) -> object:
    """What the entry point of that name leads to; a `DataError` where it cannot be loaded."""
    point = next(iter(entry_points(group=group, name=name)), None)
    if point is None:
        raise DataError(f"There is no plug-in {name!r} in {group}; install the package that brings it.")
    try:
        return point.load()
    except Exception as error:
        raise DataError(_sentence(group, point, error)) from error


def _package(point: EntryPoint) -> str:
    return "an unknown package" if point.dist is None else f"{point.dist.name} {point.dist.version}"


def _sentence(group: str, point: EntryPoint, error: Exception) -> str:
    reason = " ".join(str(error).split()).rstrip(".")
    why = reason if isinstance(error, DataError) else f"{type(error).__name__}: {reason or 'no reason given'}"
    return (
        f"The plug-in {point.name!r} ({group}) of {_package(point)} was expected to be usable, got {why}: "
        "it is left out; update or uninstall the package."
    )
