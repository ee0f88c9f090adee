"""What the API takes and gives about judged images."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sparcal.server.data.parts import MOST as MOST_PARTS
from sparcal.server.web.api.models.fields import Model, Sha, Signed


class ReviewBody(Signed):
    """What a person says about a verdict."""

    decision: Literal["confirm", "overrule"]


class ForgetBody(Signed):
    """Which judged images may go; their scores and decisions stay."""

    lot: str = Field(max_length=200, description="The lot that judged them; empty for the station's own reference.")
    overruled: bool = Field(False, description="Whether overruled images go too.")


class ForgottenAnswer(Model):
    """How many images went."""

    images: int


class StoreAnswer(Model):
    """How full the station is; the oldest judged images make room by themselves once it is full."""

    lot: str
    images: int
    bytes: int
    most_images: int
    most_bytes: int
    forgettable: int = Field(description="Images of the lot that nothing needs any more.")
    forgettable_overruled: int = Field(description="Overruled ones that could go besides.")


class WatchBody(Signed):
    """Whether the watched folder is to be judged as images arrive."""

    on: bool


class WatchAnswer(Model):
    """Whether the watched folder is judged as images arrive; `operator` is null until somebody switches it."""

    on: bool
    operator: str | None
    since: str | None
    reachable: bool = Field(description="Whether the folder can be looked into now.")


class PartsBody(Signed):
    """Good parts that the station is to be fitted on, besides those it has."""

    lot: str = Field(max_length=200, description="The lot that judged them; empty for the station's own reference.")
    images: list[Sha] = Field(
        min_length=1, max_length=MOST_PARTS, description="The images that whoever signs saw offered."
    )


class PartsAnswer(Model):
    """Images of a lot that were confirmed as good and are new to the station."""

    lot: str
    images: list[str]
    training: int = Field(description="How many parts the station was fitted on.")


class ScoreAnswer(Model):
    """One scored image and what was decided about it."""

    id: int
    sha: str
    name: str
    lot: str
    score: float | None
    threshold: float | None
    verdict: Literal["pass", "fail"] | None
    problem: str | None
    decision: Literal["confirm", "overrule"] | None
    operator: str | None
    at: str | None
    final: str
    width: int | None
    height: int | None
    removed: bool = Field(description="Whether the image itself was removed since.")


class ScoreList(Model):
    """Scored images of one lot, worst first."""

    lot: str
    counts: dict[str, int]
    waiting: int = Field(description="Images that have arrived and are not scored yet.")
    scores: list[ScoreAnswer]
