"""Records know their kind, their version and when they were changed."""

from __future__ import annotations

import json
import os
from datetime import datetime

import pytest

from sparcal.errors import ArtifactError
from sparcal.files.json_record import now, read_json, read_record, write_json, write_record


@pytest.fixture
def record(tmp_path):
    write_record(tmp_path / "a.json", "station", {"name": "ü", "versions": {"sparcal": "0.0"}})
    return tmp_path / "a.json"


def rewrite(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_record_comes_back(record):
    assert read_record(record, "station")["name"] == "ü"


def test_a_pipe_in_the_place_of_a_record_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "folder.json").mkdir()
    for name in ("pipe.json", "folder.json"):
        with pytest.raises(ArtifactError, match="expected to be a JSON file, got something that is no file: restore"):
            read_json(tmp_path / name)


def test_another_kind_is_refused(record):
    with pytest.raises(ArtifactError, match="expected to describe a lot, got 'station': check the path"):
        read_record(record, "lot")


def test_another_format_names_who_wrote_it(record):
    rewrite(record, format=9)
    with pytest.raises(
        ArtifactError, match=r"has format 9, this sparcal reads 1: use the sparcal that wrote it \(0.0\)"
    ):
        read_record(record, "station")


def test_a_changed_record_is_refused(record):
    rewrite(record, name="u")
    with pytest.raises(ArtifactError, match="does not match its own digest, so it was changed or damaged"):
        read_record(record, "station")


def test_what_is_no_json_object_is_refused(tmp_path):
    for content, message in (("[1]", "hold a JSON object, got list"), ("{", "got one that cannot be read")):
        (tmp_path / "b.json").write_text(content)
        with pytest.raises(ArtifactError, match=message):
            read_json(tmp_path / "b.json")
    with pytest.raises(ArtifactError, match="got one that cannot be read"):
        read_json(tmp_path / "none.json")


def test_json_has_no_nan(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "c.json", {"x": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_now_is_utc_to_the_millisecond():
    moment = datetime.fromisoformat(now())
    assert moment.utcoffset().total_seconds() == 0
    assert moment.microsecond % 1000 == 0
