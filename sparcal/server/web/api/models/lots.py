"""What the API takes and gives about lots and the station."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from sparcal.server.web.api.models.alarms import AlarmAnswer
from sparcal.server.web.api.models.fields import LotName, Model, Reason, Signed
from sparcal.server.web.api.models.jobs import JobAnswer
from sparcal.server.web.api.models.judging import WatchAnswer


class ActivationBody(Signed):
    """Which lot scores from now on."""

    lot: LotName | None = Field(description="null is the station's own reference.")
    reason: Reason | None = None


class SessionAnswer(Model):
    """What a client needs to make changes."""

    csrf: str = Field(description="Send it as X-Sparcal-CSRF with every change, or use a bearer token.")


class ActiveLot(Model):
    """The lot that scores now; `name` is empty for the station's own reference."""

    name: str
    since: str | None
    operator: str | None
    created: str | None
    threshold: float | None
    k: int


class StateAnswer(Model):
    """The station at a glance; `revision` grows with every change."""

    station: str
    host: str
    encoder: str
    training: int
    active: ActiveLot
    lots: int
    running: int
    queued: int
    current: JobAnswer | None
    counts: dict[str, int]
    watch: WatchAnswer | None = Field(description="null if the station watches no folder.")
    drafts: int = Field(description="Lots in the making.")
    alarm: AlarmAnswer | None = Field(description="null while parts look as they should.")
    promise: str | None = Field(description="One sentence if far more parts are rejected than was promised.")
    monitored: str = Field(description="One sentence: whether shifts are watched for.")
    trouble: str | None = Field(description="One sentence if the station cannot work now.")
    revision: int


class AuditTrail(Model):
    """Who did what, newest first."""

    entries: list[dict[str, Any]]


class LotSummary(Model):
    """One lot in the list."""

    name: str
    created: str
    operator: str | None
    k: int
    correction: str
    threshold: float
    by_hand: bool
    worst: Literal["ok", "look", "stop"]
    state: Literal["active", "replaced", "kept", "discarded", "undecided"]
    counts: dict[str, int] = Field(description="How many images it has judged, passed and failed.")
    self_test: dict[str, Any] | None = Field(
        description="Planted defects: how many were found; null if none were planted."
    )


class LotList(Model):
    """All lots; `active` is empty for the station's own reference."""

    active: str
    lots: list[LotSummary]


class CheckAnswer(Model):
    """One check of a lot."""

    name: str
    number: float | None
    title: str
    verdict: Literal["ok", "look", "stop"]
    plain: str = Field(description="What it says, in plain words.")
    sentence: str = Field(description="What was measured.")


class LotDetail(LotSummary):
    """One lot in full."""

    sentence: str
    threshold_sentence: str
    promise: str = Field(description="What the threshold promises, in plain words.")
    checks: list[CheckAnswer]
    images: list[dict[str, Any]]
    draft: int | None = Field(description="The draft it was made from; null if it was made on the command line.")
    planted_page: bool = Field(description="Whether /planted shows every planted defect of it.")
    removed_energy: list[list[float]] | None = Field(description="Share per cell; null if nothing is removed.")


class LotComparisonRow(Model):
    """One fact about two lots."""

    what: str
    first: str | float | None
    second: str | float | None


class LotComparison(Model):
    """Two lots side by side."""

    rows: list[LotComparisonRow]
