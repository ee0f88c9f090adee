"""The correction that was taken for a lot, and what was compared, as it is kept; `sparcal.calibration.selection` chooses.

It stands apart so that a lot can be read, listed and shown without loading torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Trial:
    """How planted defects fare under one correction.

    Args:
        stands_out: chance that a planted defect scores above a good part that was left out.
        behind: how far it lies behind the best, in standard errors of the paired difference; 0 for the best.
    """

    correction: str
    settings: Mapping[str, Any]
    stands_out: float
    behind: float


@dataclass(frozen=True)
class Choice:
    """The correction taken, and what was compared.

    Args:
        helps: whether it finds more planted defects than the station's own reference; None where nothing could be left
            out, or where the station's own reference was kept.
        sentence: for a person, complete once the self-test is done.
        trials: every candidate, what serves most lots best first; empty where the correction was asked for by name.
    """

    correction: str
    settings: Mapping[str, Any]
    helps: bool | None
    sentence: str
    trials: tuple[Trial, ...]
