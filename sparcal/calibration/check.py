"""One check of a lot as it is kept: a number, a verdict and one sentence; `sparcal.calibration.checks` makes them.

It stands apart so that a lot can be read, listed and shown without loading torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

Verdict = Literal["ok", "look", "stop"]


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Args:
        number: what was measured; the sentence says in which terms.
        images: the calibration images that the check names.
    """

    name: str
    number: float
    verdict: Verdict
    sentence: str
    images: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain values; `from_json` gives the same check back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Check:
        """The check that `to_json` wrote."""
        return cls(**{**data, "images": tuple(data["images"])})


def worst(checks: Sequence[Check]) -> Verdict:
    """The gravest verdict."""
    verdicts = {check.verdict for check in checks}
    return "stop" if "stop" in verdicts else "look" if "look" in verdicts else "ok"
