"""The corrections that a page offers, read from the registry when they are first needed: it loads torch."""

from __future__ import annotations

from functools import cache

CHOSEN_BY_EVIDENCE = "auto"


@cache
def offered_corrections() -> dict[str, str]:
    """What a lot can be calibrated with, and what it is called: the evidence's choice first, then what it chooses from."""
    from sparcal.corrections import CORRECTIONS, STATION_REFERENCE

    known = [(facts.auto, name, facts.title) for name, facts in CORRECTIONS.items() if facts.auto is not None]
    titles = {name: title for _, name, title in sorted(known) if name != STATION_REFERENCE}
    return {CHOSEN_BY_EVIDENCE: "decided by the evidence", **titles}


def correction_title(name: str) -> str:
    """What a correction is called."""
    from sparcal.corrections import CORRECTIONS

    return CORRECTIONS[name].title if name in CORRECTIONS else name


def removes_something(name: str) -> bool:
    """Whether a correction takes anything out of what the encoder sees."""
    from sparcal.corrections import CORRECTIONS

    return name not in CORRECTIONS or CORRECTIONS[name].removes is not None
