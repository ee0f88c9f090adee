"""A promise that the stream contradicts is said; defects that somebody confirmed do not speak against it."""

from __future__ import annotations

import pytest

from sparcal.files.json_record import write_record
from sparcal.server.data import kept_promise, scores
from sparcal.station.folder import StationFolder
from tests.support.unstaffed import add_image

OWN = [1.0 + 0.01 * number for number in range(60)]


@pytest.fixture
def station(tmp_path):
    path = tmp_path / "line-3"
    record = {"created": "2026-01-01T00:00:00.000+00:00", "images": [], "own": OWN, "files": {}}
    write_record(path / "station.json", "station", record)
    return StationFolder(path)


def judged(connection, passed, failed):
    limit = kept_promise._own_threshold(tuple(OWN)).value
    for number in range(passed + failed):
        sha = f"{number:064x}"
        add_image(connection, sha, f"{number}.png")
        verdict = "pass" if number < passed else "fail"
        scores.add(connection, sha, "", {"score": 1.0, "threshold": limit, "verdict": verdict})


def test_a_few_rejects_are_what_was_promised(database, station):
    with database.write() as connection:
        assert kept_promise.broken_promise(connection, station, "") is None
        judged(connection, 38, 2)
        assert kept_promise.broken_promise(connection, station, "") is None


def test_many_rejects_contradict_it_until_somebody_finds_them_defective(database, station):
    with database.write() as connection:
        judged(connection, 30, 20)
        said = kept_promise.broken_promise(connection, station, "")
        assert said.startswith("20 of 50 parts were rejected, and at most")
        for row in connection.execute("SELECT id FROM scores WHERE verdict = 'fail'").fetchall():
            scores.review(connection, row["id"], "defective", "A. Roth")
        assert kept_promise.broken_promise(connection, station, "") is None


def test_nothing_is_promised_by_a_threshold_that_was_set_by_hand(database, station):
    station.override(None).parent.mkdir()
    station.override(None).write_text('{"image": 0.5}')
    with database.write() as connection:
        judged(connection, 0, 50)
        assert kept_promise.broken_promise(connection, station, "") is None
