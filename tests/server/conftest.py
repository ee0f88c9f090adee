"""What the server's tests share: an empty database, and a web station without a worker."""

from __future__ import annotations

import pytest

from sparcal.server.data.database import Database
from tests.support.unstaffed import bare_station, client_of, csrf_of


@pytest.fixture
def database(tmp_path):
    return Database.at(tmp_path / "web")


@pytest.fixture
def folder(tmp_path):
    return bare_station(tmp_path / "line-3")


@pytest.fixture
def client(folder):
    return client_of(folder)


@pytest.fixture
def csrf(client):
    return csrf_of(client)
