"""What every route needs, made once per server and handed to each by FastAPI."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from sparcal.server.data.database import Database
from sparcal.server.data.sessions import ended_sessions
from sparcal.server.data.station_files import RememberedFolder
from sparcal.server.data.store import Store
from sparcal.server.data.unchanged import Unchanged
from sparcal.server.settings import WebSettings
from sparcal.server.web.security import Keys
from sparcal.station.folder import StationFolder


@dataclass(frozen=True)
class Context:
    """One running web station."""

    settings: WebSettings
    database: Database
    store: Store
    station: StationFolder
    keys: Keys
    known: Unchanged

    @classmethod
    def of(cls, settings: WebSettings) -> Context:
        """Open the station's folder and the web station's own things in it."""
        station = RememberedFolder(settings.station)
        station.read_station()  # says at once if there is none
        database = Database.at(settings.folder)
        with database.read() as connection:
            keys = Keys.of(settings, ended_sessions(connection))
        return cls(settings, database, Store(settings.folder, settings.limits), station, keys, Unchanged())


def _context(request: Request) -> Context:
    found: Context = request.app.state.context
    return found


Here = Annotated[Context, Depends(_context)]
