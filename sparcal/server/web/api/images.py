"""Pictures over HTTP: thumbnails, images at native size, heat maps. Names are hashes, so answers never change."""

from __future__ import annotations

from pathlib import Path
from sqlite3 import Row
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from starlette.responses import FileResponse, Response

from sparcal.server.data.lots import comparison_key, lot_key
from sparcal.server.data.retention import GONE
from sparcal.server.data.store import MEDIA, SHOWN_AS_IS
from sparcal.server.refusals import NotFoundError
from sparcal.server.web.api.models.fields import RecordId, ShaPath
from sparcal.server.web.context import Context, Here

router = APIRouter(tags=["pictures"], default_response_class=Response)
FOREVER = {"Cache-Control": "private, max-age=31536000, immutable"}
SMALL = 2**18
PICTURE: dict[int | str, dict[str, object]] = {200: {"content": {"image/*": {}}, "description": "The picture."}}
HeatLot = Annotated[str, Query(max_length=200, description="A lot; empty is the station's own reference.")]


@router.get("/images/{sha}/thumb", responses=PICTURE)
def thumbnail(sha: ShaPath, here: Here) -> Response:
    """A small picture."""
    _known(here, sha)
    return _picture(here.store.picture(sha, "thumb"), "image/webp")


@router.get("/images/{sha}/native", responses=PICTURE)
def native(sha: ShaPath, here: Here) -> Response:
    """The image at its native size, in a format that browsers show."""
    kind = _known(here, sha)["kind"]
    if kind in SHOWN_AS_IS:
        return _picture(here.store.image(sha), MEDIA[kind])
    return _picture(here.store.picture(sha, "view"), "image/webp")


@router.get("/images/{sha}/heat", responses=PICTURE)
def heat(sha: ShaPath, here: Here, lot: HeatLot = "") -> Response:
    """The heat map of an image under a lot."""
    _known(here, sha)
    return _picture(here.store.heat(sha, lot_key(lot)), "image/webp")


@router.get("/drafts/{draft}/heat/{side}/{sha}", responses=PICTURE)
def comparison_heat(draft: RecordId, side: Literal["before", "after"], sha: ShaPath, here: Here) -> Response:
    """The heat map of an image of a draft, before or after calibration, on one colour scale."""
    _known(here, sha)
    return _picture(here.store.heat(sha, comparison_key(draft, side)), "image/webp")


def _known(here: Context, sha: str) -> Row:
    with here.database.read() as connection:
        row: Row | None = connection.execute("SELECT * FROM images WHERE sha = ?", (sha,)).fetchone()
    if row is None or row["state"] == "refused":
        raise NotFoundError("There is no such image.")
    if row["state"] in GONE:
        raise NotFoundError("This image was removed; its scores and decisions are kept.")
    return row


def _picture(path: Path, media: str) -> Response:
    try:
        size = path.stat().st_size
        if size <= SMALL:  # in one go: FileResponse changes threads for every piece
            return Response(path.read_bytes(), media_type=media, headers=FOREVER)
    except FileNotFoundError:
        raise NotFoundError("This picture is not made yet: ask again in a moment.") from None
    return FileResponse(path, media_type=media, headers=FOREVER)
