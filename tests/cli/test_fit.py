"""`sparcal fit`: a station is tested before its first lot, and says what it would find."""

from __future__ import annotations

import json

from sparcal.cli import run
from tests.support.tiny_line import fill, fit


def test_a_station_tells_what_it_would_find(tmp_path, capsys):
    root = fill(tmp_path)
    assert fit(root) == 0
    said = capsys.readouterr()
    assert "is fitted on 12 good parts." in said.out
    assert "of 64 planted defects are found." in said.out
    assert "Planted defects by kind" in said.out
    assert f"sparcal calibrate {root / 'station'} NORMALS --lot NAME." in said.out
    assert "twins:" not in said.out
    more = str(next((root / "lot").glob("good*")))
    assert run(["fit", more, "--station", str(root / "station"), "--add", "--json"]) == 0
    added = json.loads(capsys.readouterr().out)
    assert added["images"] == 13
    assert added["self_test"]["planted"] == 64
