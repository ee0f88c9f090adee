"""The fields that requests share, and what every error looks like."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from sparcal.errors import DataError
from sparcal.station.lot_name import clean_name


def _lot_name(name: str) -> str:
    try:
        return clean_name(name)
    except DataError as error:
        raise ValueError(str(error)) from error


LARGEST_ID = 2**53 - 1
RecordId = Annotated[int, Path(ge=1, le=LARGEST_ID)]
Sha = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
ShaPath = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the image's bytes.")]
Operator = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=80, pattern=r"^[^\x00-\x1f\x7f]*$")
]
Reason = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=500, pattern=r"^[^\x00-\x1f\x7f]*$"),
    Field(description="Needed to have a lot judge although a check says stop; kept for good."),
]
ListedLot = Annotated[
    str | None, Query(max_length=200, description="A lot; empty is the station's own; none is the active.")
]
LotName = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(_lot_name)]


class Model(BaseModel):
    """A value in a request or answer; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class ErrorAnswer(Model):
    """What went wrong, in one sentence."""

    error: str


class Signed(Model):
    """A change that somebody answers for."""

    operator: Operator = Field(description="Who decides; kept for good.")
