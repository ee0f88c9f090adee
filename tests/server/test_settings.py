"""What a web station is told when it starts, and what it refuses."""

from __future__ import annotations

import pytest

from sparcal.errors import ArtifactError, DataError
from sparcal.files.json_record import write_record
from sparcal.server.settings import WebSettings
from sparcal.server.web.app import create_app


def test_other_addresses_need_a_token_unless_somebody_insists(folder):
    with pytest.raises(DataError, match="Serving on 0.0.0.0 lets other machines in, so it needs a token"):
        WebSettings(folder, host="0.0.0.0")
    with pytest.raises(DataError, match="at least 12 characters, got 5"):
        WebSettings(folder, host="0.0.0.0", token="short")
    with pytest.raises(DataError, match="watched folder must be a folder"):
        WebSettings(folder, watch=folder / "nowhere")
    assert WebSettings(folder, host="0.0.0.0", insecure=True).token is None
    assert WebSettings(folder, host="::1").token is None
    with pytest.raises(ArtifactError, match="There is no station at"):
        create_app(WebSettings(folder / "nowhere"), worker=False)


def test_the_station_does_not_watch_itself(tmp_path):
    write_record(tmp_path / "line-3/station.json", "station", {})
    (tmp_path / "line-3/web").mkdir()
    for folder in (tmp_path / "line-3/web", tmp_path / "line-3", tmp_path):
        with pytest.raises(DataError, match="must lie outside the station's folder"):
            WebSettings(tmp_path / "line-3", watch=folder)
