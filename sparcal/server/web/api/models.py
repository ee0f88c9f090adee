"""What the API takes and gives, as types; FastAPI makes the OpenAPI description from them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Path
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from sparcal.errors import DataError
from sparcal.server.data.parts import MOST as MOST_PARTS
from sparcal.station.lot_name import clean_name


def _lot_name(name: str) -> str:
    try:
        return clean_name(name)
    except DataError as error:
        raise ValueError(str(error)) from error


LARGEST_ID = 2**53 - 1
Number = Annotated[int, Path(ge=1, le=LARGEST_ID)]
Sha = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
ShaPath = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the image's bytes.")]
Operator = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=80, pattern=r"^[^\x00-\x1f\x7f]*$")
]
LotName = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(_lot_name)]


class Model(BaseModel):
    """A value in a request or answer; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class Error(Model):
    """What went wrong, in one sentence."""

    error: str


class Signed(Model):
    """A change that somebody answers for."""

    operator: Operator = Field(description="Who decides; kept for good.")


class NewDraft(Model):
    """A lot to be calibrated."""

    name: LotName


class Marks(Model):
    """The images that somebody has verified to be good."""

    images: list[Sha] = Field(max_length=64)


class Calibration(Signed):
    """How a lot is to be calibrated."""

    images: list[Sha] = Field(max_length=64, description="The images that whoever signs saw marked as good.")

    false_reject: float = Field(0.05, gt=0, lt=1, description="Share of good parts that may be rejected.")
    correction: Literal["auto", "sparc", "sparc-recentred", "normals"] = Field(
        "auto", description="auto decides by evidence."
    )


class Outcome(Signed):
    """What becomes of a calibrated lot."""

    decision: Literal["accept", "keep", "discard"]
    threshold: float | None = Field(None, allow_inf_nan=False, description="Set by hand; null keeps the lot's own.")


class Activation(Signed):
    """Which lot scores from now on."""

    lot: LotName | None = Field(description="null is the station's own reference.")


class Verdict(Signed):
    """What a person says about a verdict."""

    decision: Literal["confirm", "overrule"]


class Forget(Signed):
    """Which judged images may go; their scores and decisions stay."""

    lot: str = Field(max_length=200, description="The lot that judged them; empty for the station's own reference.")
    overruled: bool = Field(False, description="Whether overruled images go too.")


class Forgotten(Model):
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


class Watch(Signed):
    """Whether the watched folder is to be judged as images arrive."""

    on: bool


class Watching(Model):
    """Whether the watched folder is judged as images arrive; `operator` is null until somebody switches it."""

    on: bool
    operator: str | None
    since: str | None
    reachable: bool = Field(description="Whether the folder can be looked into now.")


class Parts(Signed):
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


class FromConfirmed(Model):
    """Confirmed good images as the start of the next lot."""

    name: LotName
    lot: str = Field("", max_length=200, description="The lot they were scored with; empty for the station's own.")


class Session(Model):
    """What a client needs to make changes."""

    csrf: str = Field(description="Send it as X-Sparcal-CSRF with every change, or use a bearer token.")


class JobAnswer(Model):
    """One job in the queue."""

    id: int
    kind: str
    title: str
    state: Literal["queued", "running", "done", "failed", "cancelled", "interrupted"]
    done: int
    total: int
    message: str | None
    created: str
    started: str | None
    ended: str | None
    draft: int | None


class JobStarted(Model):
    """The number of the job that does it."""

    job: int


class Jobs(Model):
    """The queue, what runs first."""

    jobs: list[JobAnswer]


class ImageAnswer(Model):
    """One image; `state` is new until the worker has read it."""

    sha: str
    name: str
    state: Literal["new", "ready", "refused", "removed"]
    width: int | None
    height: int | None
    problem: str | None


class DraftImage(ImageAnswer):
    """An image of a draft; `comparison` holds scores before and after, once calibrated."""

    good: bool
    comparison: dict[str, Any] | None


class DraftAnswer(Model):
    """A lot in the making."""

    id: int
    name: str
    state: Literal["open", "calibrating", "calibrated", "accepted", "kept", "discarded"]
    created: str
    images: list[DraftImage]
    checks: dict[str, Any] | None = Field(description="For the images marked now; null while they are being checked.")
    checking: bool
    result: dict[str, Any] | None
    job: JobAnswer | None


class Uploaded(Model):
    """An image that has arrived."""

    sha: str
    name: str


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


class Scores(Model):
    """Scored images of one lot, worst first."""

    lot: str
    counts: dict[str, int]
    waiting: int = Field(description="Images that have arrived and are not scored yet.")
    scores: list[ScoreAnswer]


class Active(Model):
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
    active: Active
    lots: int
    running: int
    queued: int
    current: JobAnswer | None
    counts: dict[str, int]
    watch: Watching | None = Field(description="null if the station watches no folder.")
    revision: int


class Audit(Model):
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
    discarded: bool


class Lots(Model):
    """All lots; `active` is empty for the station's own reference."""

    active: str
    lots: list[LotSummary]


class CheckAnswer(Model):
    """One check of a lot."""

    name: str
    number: float | None
    verdict: Literal["ok", "look", "stop"]
    sentence: str


class LotDetail(LotSummary):
    """One lot in full."""

    sentence: str
    threshold_sentence: str
    checks: list[CheckAnswer]
    images: list[dict[str, Any]]
    removed_energy: list[list[float]] | None = Field(description="Share per cell; null if nothing is removed.")


class ComparisonRow(Model):
    """One fact about two lots."""

    what: str
    first: str | float | None
    second: str | float | None


class Comparison(Model):
    """Two lots side by side."""

    rows: list[ComparisonRow]
