"""Errors as answers: one sentence, the right status, never a traceback and never a path of this machine."""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from sparcal.errors import BusyError, DataError, SparcalError
from sparcal.server.data.room import is_full
from sparcal.server.refusals import ConflictError, NotFoundError, TooLargeError
from sparcal.server.sentences import DISK_FULL, sentence_of
from sparcal.server.web.complaints import complaint

_log = logging.getLogger("sparcal.server")
_HTTP = {
    404: "There is nothing at this address.",
    405: "This address does not take that method.",
    408: "The request took too long to arrive: send it again.",
    413: "That is more than the station takes at once.",
}


def install(app: FastAPI) -> None:
    """Have the application answer every error in one way."""

    @app.exception_handler(SparcalError)
    async def refused(request: Request, error: SparcalError) -> Response:
        root = request.app.state.context.settings.station
        return answer(request, _status(error), sentence_of(error, {str(root): root.name}))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return answer(request, 422, complaint(error.errors()[0]).encode("utf-8", "replace").decode())

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, _: ClientDisconnect) -> Response:
        return answer(request, 400, "The connection broke off before all was sent: send it again.")

    @app.exception_handler(OSError)
    async def system(request: Request, error: OSError) -> Response:
        if not is_full(error):
            _log.exception("%s %s", request.method, request.url.path, exc_info=error)
        return answer(request, 507 if is_full(error) else 500, sentence_of(error))

    @app.exception_handler(HTTPException)
    async def known(request: Request, error: HTTPException) -> Response:
        return answer(request, error.status_code, _HTTP.get(error.status_code, str(error.detail)), error.headers)

    @app.exception_handler(sqlite3.OperationalError)
    async def database(request: Request, error: sqlite3.OperationalError) -> Response:
        if is_full(error):
            return answer(request, 507, DISK_FULL)
        _log.error("database: %s", error)
        return answer(request, 503, "The station's database cannot be written now: check the disk, and try again.")

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        return answer(request, 500, sentence_of(error))


def answer(request: Request, status: int, sentence: str, headers: object = None) -> Response:
    """An error for programs as JSON, for browsers as a page."""
    kept = dict(headers) if isinstance(headers, dict) else {}
    if status in {408, 413}:
        kept["Connection"] = "close"  # hang up, or the client goes on sending
    wants_page = "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/api/")
    if not wants_page:
        return JSONResponse({"error": sentence}, status_code=status, headers=kept)
    page: Response = request.app.state.templates.TemplateResponse(
        request, "error.html", {"status": status, "sentence": sentence}, status_code=status, headers=kept
    )
    return page


def _status(error: SparcalError) -> int:
    for kind, status in ((NotFoundError, 404), (ConflictError, 409), (TooLargeError, 413), (BusyError, 409)):
        if isinstance(error, kind):
            return status
    return 400 if isinstance(error, DataError) else 500


def names_of(folder: Path) -> str:
    """A folder as people see it: its last part."""
    return folder.resolve().name
