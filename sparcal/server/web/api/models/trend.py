"""What the API gives about the run of scores over time."""

from __future__ import annotations

from typing import Literal

from sparcal.server.web.api.models.fields import Model


class TrendPoint(Model):
    """One judged part."""

    id: int
    lot: str
    score: float
    threshold: float
    verdict: Literal["pass", "fail"]
    at: str
    name: str


class TrendAlarm(Model):
    """A shift that was noticed: the numbers of the first part and of the one at which it was noticed."""

    first: int
    last: int
    what: str


class TrendAnswer(Model):
    """The latest judged parts of all references, oldest first, and the shifts that were noticed among them."""

    points: list[TrendPoint]
    alarms: list[TrendAlarm]


class DayCounts(Model):
    """What one reference judged on one day."""

    day: str
    lot: str
    passed: int
    failed: int
    errors: int


class DailyAnswer(Model):
    """Passed and failed by day, the latest day first."""

    days: list[DayCounts]
