"""The correction that somebody asked for: a name, "auto", or an object, and how the object is called in the record."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from sparcal.calibration.defaults import AUTO
from sparcal.corrections import CORRECTIONS
from sparcal.errors import DataError
from sparcal.settings import in_short
from sparcal.types import Correction, check_side


def check_asked(correction: object) -> None:
    """Raise DataError unless `correction` is "auto", a registered name, or an unfitted correction."""
    if isinstance(correction, str):
        if correction != AUTO and correction not in CORRECTIONS:
            raise DataError(f"There is no correction {correction!r}; choose from {AUTO}, {', '.join(CORRECTIONS)}.")
    elif isinstance(correction, type) or not isinstance(correction, Correction):
        raise DataError(
            f"A correction must be a name or an object with on, fit, apply and apply_reference, got "
            f"{in_short(correction)}: choose from {AUTO}, {', '.join(CORRECTIONS)}, or make one, as in SPARC(rank=2)."
        )
    else:
        check_side(correction.on, f"{type(correction).__name__}.on")


def asked_as(correction: str | Correction) -> tuple[str | Correction, dict[str, Any] | None]:
    """The registry's name, and the settings in which the object differs from that entry; another's object as it is.

    `SPARC(rank=2, recentre="cell")` is "sparc-recentred" with rank 2: one correction has one name in all records.
    """
    if isinstance(correction, str):
        return correction, None
    entries = [
        (name, entry)
        for name, entry in CORRECTIONS.items()
        if entry.kind is type(correction) and all(getattr(correction, key) == v for key, v in entry.settings.items())
    ]
    if not entries:
        return correction, None
    name, entry = max(entries, key=lambda one: len(one[1].settings))
    plain = entry()
    names = [f.name for f in fields(plain) if f.init]  # type: ignore[arg-type]
    changed = {name: getattr(correction, name) for name in names}
    return name, {key: value for key, value in changed.items() if value != getattr(plain, key)}
