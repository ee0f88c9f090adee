"""The run of scores over HTTP: the latest parts in order, and the counts of each day."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from sparcal.server.data import trend
from sparcal.server.web.api.models.trend import DailyAnswer, DayCounts, TrendAlarm, TrendAnswer, TrendPoint
from sparcal.server.web.context import Here

router = APIRouter(tags=["judge"])


@router.get("/trend")
def show_trend(here: Here, limit: Annotated[int, Query(ge=1, le=2000)] = 300) -> TrendAnswer:
    """The latest judged parts of all references, oldest first, for a control chart."""

    def read() -> TrendAnswer:
        points = trend.latest_points(connection, limit=limit)
        noticed = trend.alarms_since(connection, points[0]["id"] if points else 0)
        return TrendAnswer(
            points=[TrendPoint(**point) for point in points], alarms=[TrendAlarm(**alarm) for alarm in noticed]
        )

    with here.database.read() as connection:
        return here.known.answer(connection, ("trend", limit), read)


@router.get("/daily")
def show_daily(here: Here, days: Annotated[int, Query(ge=1, le=366)] = 30) -> DailyAnswer:
    """Passed and failed by day and by reference, the latest day first."""
    with here.database.read() as connection:
        rows = trend.daily_counts(connection, days=days)
    return DailyAnswer(days=[DayCounts(**row) for row in rows])
