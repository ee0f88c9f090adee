"""What the API gives about the queue."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sparcal.server.web.api.models.fields import Model


class JobAnswer(Model):
    """One job in the queue."""

    id: int
    kind: str
    title: str
    state: Literal["queued", "running", "done", "failed", "cancelled", "interrupted", "held"]
    done: int
    total: int
    message: str | None
    created: str
    started: str | None
    ended: str | None
    draft: int | None
    remaining_s: float | None = Field(description="About how long it still takes; null if that cannot be told.")


class JobStarted(Model):
    """The number of the job that does it."""

    job: int


class JobList(Model):
    """The queue, what runs first."""

    jobs: list[JobAnswer]
