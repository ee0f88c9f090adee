"""What the API takes and gives about a lot in the making."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from sparcal.calibration.defaults import FALSE_REJECT
from sparcal.server.data.corrections import CHOSEN_BY_EVIDENCE, offered_corrections
from sparcal.server.web.api.models.fields import LARGEST_ID, LotName, Model, Reason, Sha, Signed
from sparcal.server.web.api.models.jobs import JobAnswer


def _offered(name: str) -> str:
    if name != CHOSEN_BY_EVIDENCE and name not in offered_corrections():
        raise ValueError(f"The correction must be one of {', '.join(offered_corrections())}, got {name!r}.")
    return name


def _describe(schema: dict[str, Any]) -> None:
    """The names for the OpenAPI description, when somebody asks for it."""
    schema["enum"] = list(offered_corrections())


OfferedCorrection = Annotated[
    str,
    AfterValidator(_offered),
    Field(description="auto decides by the evidence.", json_schema_extra=_describe),
]


class NewDraftBody(Model):
    """A lot to be calibrated."""

    name: LotName


class NewLotBody(NewDraftBody):
    """A lot to be calibrated that can begin with images the station holds already."""

    images_of: int | None = Field(
        None, ge=1, le=LARGEST_ID, description="An earlier draft, whose images this one begins with; none is marked."
    )


class MarksBody(Model):
    """The images that somebody has verified to be good."""

    images: list[Sha] = Field(max_length=64)


class CalibrationBody(Signed):
    """How a lot is to be calibrated."""

    images: list[Sha] = Field(max_length=64, description="The images that whoever signs saw marked as good.")

    false_reject: float = Field(FALSE_REJECT, gt=0, lt=1, description="Share of good parts that may be rejected.")
    correction: OfferedCorrection = "auto"


class DraftDecisionBody(Signed):
    """What becomes of a calibrated lot."""

    decision: Literal["accept", "keep", "discard"]
    threshold: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="Set by hand; null keeps the lot's own."
    )
    reason: Reason | None = None


class DraftSummary(Model):
    """A lot in the making, in one line."""

    id: int
    name: str
    state: Literal["open", "calibrating", "calibrated"]
    created: str
    images: int
    good: int


class DraftList(Model):
    """Lots in the making, the newest first."""

    drafts: list[DraftSummary]


class FromConfirmedBody(Model):
    """Confirmed good images as the start of the next lot."""

    name: LotName
    lot: str = Field("", max_length=200, description="The lot they were scored with; empty for the station's own.")


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


class UploadAnswer(Model):
    """An image that has arrived."""

    sha: str
    name: str
