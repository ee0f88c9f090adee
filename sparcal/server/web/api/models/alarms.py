"""What the API takes and gives about shifts that were noticed."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from sparcal.server.web.api.models.fields import Model, Signed


class AlarmPart(Model):
    """A part that looks different."""

    sha: str
    name: str
    score: int = Field(description="Number of its score.")


class AlarmAnswer(Model):
    """A shift that the station has noticed."""

    id: int
    lot: str = Field(description="What judged; empty is the station's own reference.")
    what: str = Field(description="What is different, as a clause.")
    since: str = Field(description="When the first such part was judged.")
    at: str = Field(description="When it was noticed.")
    first: int = Field(description="Number of the score with which it began.")
    last: int = Field(description="Number of the score at which it was noticed.")
    count: int = Field(description="Parts judged since.")
    failed: int = Field(description="Of those.")
    parts: list[AlarmPart] = Field(description="Some of them, the latest first.")
    draft: int | None = Field(description="The draft that was begun from them, while it is not decided.")
    ended: str | None
    outcome: Literal["dismissed", "another lot"] | None


class AlarmList(Model):
    """Every shift that was noticed, the latest first."""

    alarms: list[AlarmAnswer]


class DismissBody(Signed):
    """Somebody has looked at the parts and holds them to be in order."""

    reason: Annotated[
        str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500, pattern=r"^[^\x00-\x1f\x7f]*$")
    ] = Field(description="Why this is no reason for a new lot; kept for good.")
