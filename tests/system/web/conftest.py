"""A real web station before a real Chromium; light and dark screenshots are kept in artifacts/web."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.browsing import patient_context
from tests.support.served import build_station, serve


@pytest.fixture(scope="session")
def parts_and_station(tmp_path_factory):
    folder = tmp_path_factory.mktemp("web")
    return build_station(folder / "line-3"), folder / "line-3"


@pytest.fixture(scope="session")
def parts(parts_and_station):
    return parts_and_station[0]


@pytest.fixture(scope="module")
def served(parts_and_station, tmp_path_factory):
    """A web station of its own for every test file, all from the same fitted one."""
    path = tmp_path_factory.mktemp("copy") / "line-3"
    shutil.copytree(parts_and_station[1], path)
    with serve(path) as running:
        yield running


@pytest.fixture(scope="session")
def album():
    folder = Path(__file__).parents[3] / "artifacts" / "web"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def page(chromium, served):
    """A page that fails the test on any script error and on any request to another place."""
    context = patient_context(chromium, base_url=served.address, viewport={"width": 1440, "height": 1000})
    opened = context.new_page()
    troubles = []
    opened.on("pageerror", lambda error: troubles.append(str(error)))
    opened.on("console", lambda message: troubles.append(message.text) if "Content Security" in message.text else None)
    opened.on(
        "request", lambda request: request.url.startswith((served.address, "blob:")) or troubles.append(request.url)
    )
    yield opened
    context.close()
    assert troubles == []
