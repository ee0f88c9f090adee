"""What a setting may be, said once: each function lets a good value pass and refuses any other in one sentence.

Values are looked at when an object is made and are kept as they were given, so that a copy made from its fields is the
same object. numpy's numbers are numbers; True is not 1, and NaN is none.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeGuard

from sparcal.errors import DataError, PlaceError

LARGEST_SEED = 2**63 - 1  # what every random generator takes
MOST_WORKERS = 1024  # threads that anybody may ask for
LONGEST_NAME = 255  # bytes of a file's name
LONGEST_SHOWN = 60  # characters of a value in a sentence


def one_of(value: object, who: str, choices: Iterable[str], *, optional: bool = False, hint: str = "") -> None:
    """`value` must be one of these words.

    Args:
        who: the setting, for instance "SPARC.recentre".
        optional: whether None is a value too; so in every function here.
        hint: what to do instead, or why; follows the value.
    """
    words = tuple(choices)
    if not (optional and value is None) and not (isinstance(value, str) and value in words):
        raise _refused(who, f"one of {', '.join(words)}", value, optional=optional, hint=hint)


def whole_number(
    value: object,
    who: str,
    *,
    least: int | None = None,
    most: int | None = None,
    optional: bool = False,
    hint: str = "",
) -> None:
    """`value` must be a whole number between `least` and `most`, both included."""
    if optional and value is None:
        return
    good = _is_whole(value) and (least is None or value >= least) and (most is None or value <= most)
    if not good:
        raise _refused(who, f"a whole number{_between(least, most)}", value, optional=optional, hint=hint)


def check_workers(value: object) -> None:
    """`value` must be a number of threads that can be started."""
    whole_number(value, "workers", least=1)
    whole_number(value, "workers", most=MOST_WORKERS)


def seed_number(value: object, who: str) -> None:
    """`value` must be what random generators take for a seed."""
    whole_number(value, who, least=0, most=LARGEST_SEED)


def finite_number(
    value: object,
    who: str,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    hint: str = "",
) -> None:
    """`value` must be a finite number of at least `least`, above `above`, and at most `most`."""
    good = (
        is_number(value)
        and (least is None or value >= least)
        and (above is None or value > above)
        and (most is None or value <= most)
    )
    if not good:
        raise _refused(who, f"a finite number{_between(least, most, above)}", value, hint=hint)


def share(value: object, who: str, *, hint: str = "") -> None:
    """`value` must be a share of something that leaves some of it: above 0, up to 1."""
    if not (is_number(value) and 0 < value <= 1):
        raise _refused(who, "in (0, 1]", value, hint=hint)


def switch(value: object, who: str, *, optional: bool = False, hint: str = "") -> None:
    """`value` must be True or False, and not a number or a word that could be read as one of them."""
    if not isinstance(value, bool) and not (optional and value is None):
        raise _refused(who, "True or False", value, optional=optional, hint=hint)


def text(value: object, who: str, *, optional: bool = False, hint: str = "") -> None:
    """`value` must be a text."""
    if not isinstance(value, str) and not (optional and value is None):
        raise _refused(who, "a text", value, optional=optional, hint=hint)


def whole_numbers(
    value: object,
    who: str,
    *,
    least: int | None = None,
    count: int | None = None,
    optional: bool = False,
    some: bool = True,
    hint: str = "",
) -> None:
    """`value` must be a tuple of whole numbers.

    Args:
        count: how many; None leaves it open.
        some: whether there must be at least one.
    """
    if optional and value is None:
        return
    good = isinstance(value, tuple) and (bool(value) or not some) and count in (None, len(value))
    if not good or not all(_is_whole(one) and (least is None or one >= least) for one in value):  # type: ignore[attr-defined]
        many = "" if count is None else f"{count} "
        expected = f"a tuple of {many}whole numbers{_between(least, None)}"
        raise _refused(who, expected, value, optional=optional, hint=hint)


def finite_numbers(
    value: object, who: str, *, count: int, least: float | None = None, above: float | None = None, hint: str = ""
) -> None:
    """`value` must be a tuple of `count` finite numbers."""
    good = isinstance(value, tuple) and len(value) == count and all(is_number(one) for one in value)
    if not good or not all((least is None or x >= least) and (above is None or x > above) for x in value):  # type: ignore[attr-defined]
        raise _refused(who, f"a tuple of {count} finite numbers{_between(least, None, above)}", value, hint=hint)


def texts(value: object, who: str, *, hint: str = "") -> None:
    """`value` must be a tuple of texts; one text alone is not, though it can be looped over."""
    if not isinstance(value, tuple) or not all(isinstance(one, str) for one in value):
        raise _refused(who, "a tuple of texts", value, hint=hint)


def instance_of(
    value: object, who: str, kind: type | tuple[type, ...], *, optional: bool = False, hint: str = ""
) -> None:
    """`value` must be an object of this kind; the class of one is not, though a protocol would take it."""
    if (not isinstance(value, kind) or (isinstance(value, type) and kind is not type)) and not (
        optional and value is None
    ):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        names = " or ".join(with_article(one.__name__) for one in kinds)
        raise _refused(who, names, value, optional=optional, hint=hint)


def several(value: object, who: str, what: str) -> list[Any]:
    """`value` as a list; it must be a list, a tuple or another iterable, and no text or mapping.

    Args:
        what: it holds, in the plural.
    """
    return list(one_by_one(value, who, what))


def one_by_one(value: object, who: str, what: str) -> Iterator[Any]:
    """The same without a list: nothing is asked for before its turn."""
    try:
        if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping | type):
            raise TypeError
        return iter(value)
    except TypeError:  # also an array without an axis
        raise _refused(who, f"a list of {what}", value) from None


def classes(value: object, who: str) -> tuple[type, ...]:
    """`value` as a tuple; it must be a list of classes."""
    found = several(value, who, "classes")
    for one in found:
        instance_of(one, f"Each of {who}", type, hint="pass the class itself")
    return tuple(found)


def function(value: object, who: str, *, optional: bool = False) -> None:
    """`value` must be something that can be called."""
    if not callable(value) and not (optional and value is None):
        raise _refused(who, "a function", value, optional=optional)


def file_path(value: object, who: str, *, optional: bool = False) -> None:
    """`value` must be a text or a Path that names a place a file system can have."""
    if optional and value is None:
        return
    instance_of(value, who, (str, Path), optional=optional)
    try:
        longest = max((len(os.fsencode(part)) for part in Path(str(value)).parts), default=0)
    except UnicodeEncodeError:
        longest = LONGEST_NAME + 1
    if value == "" or "\0" in str(value) or longest > LONGEST_NAME:
        got = f"a name of {longest} bytes" if longest > LONGEST_NAME else in_short(str(value))
        raise PlaceError(f"{who} must be a path that a file system can have{' or None' * optional}, got {got}.")


def mapping(value: object, who: str, *, hint: str = "") -> None:
    """`value` must be a mapping from texts."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise _refused(who, "a mapping from texts", value, hint=hint)


def parameters(thing: Any, deep: bool = True) -> dict[str, Any]:  # noqa: ARG001
    """The settings of a dataclass, without what it has learned.

    A class that says `get_params = parameters` is understood by scikit-learn: `sklearn.base.clone` makes an unfitted
    one with the same settings.

    Args:
        deep: asked for by scikit-learn; no setting has settings of its own.
    """
    return {field.name: getattr(thing, field.name) for field in fields(thing) if field.init}


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Whether `value` is a finite number: True is none, nor is a text that spells one."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that no float reaches
        return False


def _between(least: float | None, most: float | None, above: float | None = None) -> str:
    bounds = [f"above {above}"] * (above is not None)
    bounds += [f"of at least {least}"] * (least is not None)
    bounds += [f"of at most {most}" if not bounds else f"at most {most}"] * (most is not None)
    return f" {' and '.join(bounds)}" if bounds else ""


def _refused(who: str, expected: str, value: object, *, optional: bool = False, hint: str = "") -> DataError:
    end = f": {hint}" if hint else ""
    return DataError(f"{who} must be {expected}{' or None' * optional}, got {in_short(value)}{end}.")


def in_short(value: object) -> str:
    """A value as a sentence shows it: as Python writes it where that is short, else its type."""
    if not isinstance(value, int) and isinstance(value, Real):
        return str(value)
    plain = isinstance(value, str | bytes | int | tuple | list | dict | type(None) | type)
    written = repr(value) if plain else ""
    kind = type(value).__name__.rstrip("_")  # NumPy 1 says bool_
    return written if 0 < len(written) <= LONGEST_SHOWN else with_article(kind)


def with_article(name: str) -> str:
    """The name of a type in a sentence."""
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"
