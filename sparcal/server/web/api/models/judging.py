"""What the API takes and gives about judged images."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sparcal.server.data.parts import MOST as MOST_PARTS
from sparcal.server.data.scores import PartFinding, ScoreFilter
from sparcal.server.web.api.models.fields import Model, Sha, Signed


class ReviewBody(Signed):
    """What a person found who looked at a part."""

    finding: PartFinding


class AgainBody(Signed):
    """What is to be judged again, by the lot that is active now."""

    lot: str = Field(max_length=200, description="What judged it before; empty for the station's own reference.")
    since: str = Field(
        "",
        max_length=40,
        pattern=r"^(\d{4}-\d\d-\d\dT[0-9:.Z+-]{5,30})?$",
        description="Only what was judged since then.",
    )
    show: ScoreFilter = Field("all", description="Only what this filter of the list shows.")
    search: str = Field("", max_length=200, description="Only images with this in their name.")
    images: list[Sha] | None = Field(None, min_length=1, max_length=1000, description="Only these; null for all.")
    without: list[Sha] = Field(default_factory=list, max_length=1000, description="Not these.")


class AgainAnswer(Model):
    """How many images are judged again, and by which job."""

    images: int
    job: int


class AgainOffer(Model):
    """How many images could be judged again by the lot that is active now."""

    lot: str = Field(description="What judged them before.")
    images: int


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


class RefusedFile(Model):
    """A file of the watched folder that cannot be judged."""

    name: str
    problem: str


class WatchAnswer(Model):
    """Whether the watched folder is judged as images arrive; `operator` is null until somebody switches it."""

    on: bool
    operator: str | None
    since: str | None
    reachable: bool = Field(description="Whether the folder can be looked into now.")
    refused: list[RefusedFile] = Field(description="Files that cannot be judged, the latest first.")


class PartsBody(Signed):
    """Good parts that the station is to be fitted on, besides those it has."""

    lot: str = Field(max_length=200, description="The lot that judged them; empty for the station's own reference.")
    images: list[Sha] = Field(
        min_length=1, max_length=MOST_PARTS, description="The images that whoever signs saw offered."
    )


class OfferedPart(Model):
    """One part that could be added to the station."""

    sha: str
    name: str


class PartsAnswer(Model):
    """Parts of a lot that passed, that somebody found good and that are new to the station."""

    lot: str
    parts: list[OfferedPart]
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
    created: str = Field(description="When it was judged.")
    finding: PartFinding | None = Field(description="What the last person who looked at it found.")
    overruled: bool = Field(description="Whether that differs from the verdict.")
    operator: str | None
    at: str | None
    final: str
    width: int | None
    height: int | None
    removed: bool = Field(description="Whether the image itself was removed since.")


class ScoreDetail(ScoreAnswer):
    """One scored image, and what other references said about it."""

    others: list[ScoreAnswer]


class OtherVerdict(Model):
    """What another reference said about an image."""

    lot: str = Field(description="Empty for the station's own reference.")
    verdict: Literal["pass", "fail"] | None


class ListedScore(ScoreAnswer):
    """One scored image in the list of its lot."""

    beside: OtherVerdict | None = Field(description="What the latest other reference said about it, if any.")
    again: bool = Field(description="Whether the lot that is active now has not judged it, and could.")


class ScoreList(Model):
    """Scored images of one lot."""

    lot: str
    references: list[str] = Field(description="What has judged images, the latest first; empty is the station's own.")
    counts: dict[str, int]
    waiting: int = Field(description="Images that have arrived and are not scored yet.")
    scores: list[ListedScore]
