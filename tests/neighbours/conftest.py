"""Both ways that points can be compared: by torch alone, and by compiled loops."""

from __future__ import annotations

import pytest

from sparcal.neighbours import _points, search


@pytest.fixture(params=["plain", "compiled"])
def route(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send inputs of any size through the torch loops, or through the compiled ones."""
    if request.param == "plain":
        monkeypatch.setattr(_points, "compiled_loops", lambda _what: None)
    monkeypatch.setattr(_points, "TINY", 0)
    monkeypatch.setattr(search, "_sketch_pays", lambda _q, _m: True)
