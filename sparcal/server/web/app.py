"""The application: its routes, its guard, its errors, and the worker process next to it."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path

from fastapi import FastAPI
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.staticfiles import StaticFiles
from starlette.templating import Jinja2Templates

from sparcal import __version__
from sparcal.server.settings import WebSettings
from sparcal.server.web import errors, pages
from sparcal.server.web.api import alarms, drafts, images, jobs, judge, lots, models, trend
from sparcal.server.web.context import Context
from sparcal.server.web.security import Guard
from sparcal.server.work.supervisor import Supervisor

_HERE = Path(__file__).parent
_REFUSALS: dict[int | str, dict[str, object]] = {
    code: {"model": models.fields.ErrorAnswer, "description": text}
    for code, text in {
        400: "The request cannot be used.",
        401: "The token is missing.",
        403: "The CSRF value or the origin is wrong.",
        404: "There is no such thing.",
        409: "The present state does not allow it.",
        413: "Too much at once.",
        422: "A value is not what was described.",
    }.items()
}


def create_app(settings: WebSettings, *, worker: bool = True) -> FastAPI:
    """The web station for one station folder.

    Args:
        worker: whether to keep a worker process; without one, jobs wait for another.
    """
    context = Context.of(settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        context.store.sweep_incoming()
        supervisor = Supervisor(settings) if worker else None
        if supervisor:
            supervisor.start()
        threading.Thread(target=_load_the_rest, daemon=True).start()
        yield
        if supervisor:
            supervisor.stop()

    app = FastAPI(
        title="sparcal web station",
        version=__version__,
        description="Calibrate and judge lots of one station.",
        lifespan=lifespan,
        docs_url=None,  # both load their scripts from elsewhere; /api/docs is our own page
        redoc_url=None,
        openapi_url="/openapi.json",
        responses=_REFUSALS,
    )
    app.state.context = context
    environment = Environment(loader=FileSystemLoader(_HERE / "templates"), autoescape=True, undefined=StrictUndefined)
    app.state.templates = Jinja2Templates(env=environment)
    add_api(app)
    app.include_router(pages.router)
    app.mount("/static", StaticFiles(directory=_HERE / "static"), name="static")
    errors.install(app)
    app.add_middleware(Guard, settings=settings, keys=context.keys)
    return app


def _load_the_rest() -> None:
    """What lists of lots and decisions need, seconds of it: loaded beside the first pages, so that nobody waits for it."""
    for name in ("sparcal.corrections", "sparcal.station.station"):
        import_module(name)


def add_api(app: FastAPI) -> None:
    """The routes that programs call; they describe themselves without a station."""
    for part in (jobs, drafts, judge, alarms, trend, lots, images):
        app.include_router(part.router, prefix="/api")
