"""The pages: a frame with the state at its top, rendered here; the rest is filled in by the page's own script."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from starlette.responses import RedirectResponse, Response

from sparcal.server.data import drafts, sessions
from sparcal.server.data.corrections import offered_corrections
from sparcal.server.data.database import current_revision
from sparcal.server.data.lots import active_lot, planted_page, require_listed
from sparcal.server.data.report import lot_report
from sparcal.server.web.api.models.fields import LARGEST_ID, ListedLot
from sparcal.server.web.api_shapes import api_groups
from sparcal.server.web.context import Context, Here
from sparcal.server.web.errors import names_of
from sparcal.server.web.security import SESSION_S, WRITTEN_PAGE, WRONG_TOKEN_PAUSE_S, is_over_tls

router = APIRouter(include_in_schema=False)
DraftNumber = Annotated[int | None, Query(ge=1, le=LARGEST_ID)]
ReportedLot = Annotated[str, Query(min_length=1, max_length=200)]


@router.get("/")
def front_page() -> Response:
    """The page that is open all day."""
    return RedirectResponse("/judge", status_code=307)


@router.get("/judge")
def judge_page(request: Request, here: Here, lot: ListedLot = None) -> Response:
    """Scored images, worst first, of the active lot or of any other."""
    if lot is not None:
        with here.database.read() as connection:
            require_listed(connection, here.station, lot)  # a page says so if there is none
    return _page(request, here, "judge")


@router.get("/new")
def new_page(request: Request, here: Here, draft: DraftNumber = None) -> Response:
    """A new lot, or one in the making; without a number, all that are."""
    if draft is not None:
        with here.database.read() as connection:
            drafts.read_draft(connection, draft)  # a page says so if there is none
    return _page(request, here, "new", corrections=offered_corrections(), fewest=drafts.FEWEST, most=drafts.MOST)


@router.get("/lots")
def lots_page(request: Request, here: Here) -> Response:
    """All lots and who decided what."""
    return _page(request, here, "lots")


@router.get("/report")
def report_page(request: Request, here: Here, lot: ReportedLot) -> Response:
    """One lot on paper: to be printed, or saved as PDF by the browser."""
    return _page(request, here, "report", report=lot_report(here.database, here.station, lot))


@router.get("/planted")
def planted_defects_page(here: Here, lot: ReportedLot) -> Response:
    """Every planted defect of a lot, found and missed, as the calibration wrote it down."""
    return Response(planted_page(here.station, lot).read_bytes(), media_type="text/html", headers=WRITTEN_PAGE)


@router.get("/api/docs")
def docs_page(request: Request, here: Here) -> Response:
    """The API for people."""
    return _page(request, here, "docs", groups=list(api_groups(request.app.openapi())))


@router.get("/login")
def login_page(request: Request, here: Here) -> Response:
    """Where the token is asked for."""
    if here.settings.token is None:
        return RedirectResponse("/judge", status_code=303)
    page: Response = request.app.state.templates.TemplateResponse(request, "login.html", {"wrong": False})
    return page


@router.post("/login")
async def login(request: Request, here: Here, token: Annotated[str, Form(max_length=400)]) -> Response:
    """The token in exchange for a session cookie; a wrong one takes a while to be told so."""
    if not here.keys.knows(token):
        await asyncio.sleep(WRONG_TOKEN_PAUSE_S)
        page: Response = request.app.state.templates.TemplateResponse(
            request, "login.html", {"wrong": True}, status_code=401
        )
        return page
    answer = RedirectResponse("/judge", status_code=303)
    answer.set_cookie(
        here.keys.cookie,
        here.keys.new_session(),
        max_age=SESSION_S,
        httponly=True,
        samesite="strict",
        secure=is_over_tls(request.url.scheme, request.headers),
    )
    return answer


@router.post("/logout")
def logout(request: Request, here: Here) -> Response:
    """End the session, in this browser and in every copy of its cookie."""
    session = request.cookies.get(here.keys.cookie, "")
    with here.database.write() as connection:
        sessions.end_session(connection, session)
    here.keys.end(session)
    answer = RedirectResponse("/login", status_code=303)
    answer.delete_cookie(here.keys.cookie)
    return answer


@router.get("/healthz")
def health() -> dict[str, bool]:
    """For whoever watches the process."""
    return {"ok": True}


def _page(request: Request, here: Context, name: str, **more: object) -> Response:
    with here.database.read() as connection:
        revision = current_revision(connection)
    frame = {
        "page": name,
        "csrf": request.state.csrf,
        "revision": revision,
        "station": names_of(here.settings.station),
        "active": active_lot(here.station),
        "watch": here.settings.watch is not None,
        "signed_in": here.settings.token is not None,
    }
    page: Response = request.app.state.templates.TemplateResponse(request, f"{name}.html", {**frame, **more})
    return page
