"""Who judges: what tables and pages say about a lot, whether a station holds it or it was exported. No torch here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sparcal.imaging.decode import ImageSource

if TYPE_CHECKING:
    from sparcal.calibration.check import Check
    from sparcal.calibration.self_test import SelfTest
    from sparcal.calibration.thresholds import Threshold
    from sparcal.station.judgement import Judgement


@dataclass(frozen=True)
class JudgeFacts:
    """What a page says about a lot beside its verdicts.

    Args:
        name: None for a station's own reference.
        threshold: for image scores.
        title: by what images are judged, in a few words.
        origin: at which station, when and by whom it was made; empty where that is not known.
        choice: why its correction was taken; empty where that is not known.
        sentence: what its threshold does.
        limit: the threshold with what it promised; None where that is not known.
        self_test_page: the page of planted defects, where there is one.
    """

    name: str | None
    threshold: float
    title: str
    choice: str
    sentence: str
    origin: str = ""
    limit: Threshold | None = None
    checks: Sequence[Check] = ()
    self_test: SelfTest | None = None
    self_test_page: Path | None = None


class Judge(Protocol):
    """A lot that judges: a station's, or one that was exported."""

    @property
    def name(self) -> str | None:
        """None for a station's own reference."""
        ...

    @property
    def sentence(self) -> str:
        """By which lot parts are judged, and by which threshold."""
        ...

    def on_page(self) -> JudgeFacts:
        """What a table or page says about the lot beside its verdicts."""
        ...

    def stream(self, sources: Sequence[ImageSource]) -> Iterator[Judgement]:
        """Judge images one by one, in order, in memory that does not grow with their number."""
        ...
