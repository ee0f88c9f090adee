"""The station's files are parsed once, and again when they change."""

from __future__ import annotations

import pytest

from sparcal.errors import ArtifactError, DataError
from sparcal.files import json_record
from sparcal.files.json_record import write_record
from sparcal.server.data.station_files import RememberedFolder


def test_a_record_is_read_again_only_when_it_has_changed(tmp_path, monkeypatch):
    parsed = []
    real = json_record.read_json
    monkeypatch.setattr(json_record, "read_json", lambda path: (parsed.append(path.name), real(path))[1])
    folder = RememberedFolder(tmp_path)
    with pytest.raises(ArtifactError, match="There is no station at"):
        folder.read_station()
    write_record(tmp_path / "station.json", "station", {"host": "patchcore"})
    for name in ("b", "a"):
        write_record(folder.lot(name) / "lot.json", "lot", {"name": name, "created": name})
    for _ in range(3):
        assert folder.read_station()["host"] == "patchcore"
        assert [lot["name"] for lot in folder.read_lots()] == ["a", "b"]
        assert folder.read_lot("a")["name"] == "a"
    assert sorted(parsed) == ["lot.json", "lot.json", "station.json"]
    write_record(tmp_path / "station.json", "station", {"host": "padim and more"})
    assert folder.read_station()["host"] == "padim and more"
    with pytest.raises(DataError, match="has no lot 'c'; it has a, b"):
        folder.read_lot("c")
    (tmp_path / "station.json").write_text("{")
    with pytest.raises(ArtifactError):
        folder.read_station()
