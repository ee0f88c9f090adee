"""A promise that the stream contradicts is said; defects that somebody confirmed do not speak against it."""

from __future__ import annotations

from itertools import product

import pytest

from sparcal.calibration.promise import check_promise
from sparcal.files.json_record import write_record
from sparcal.server.data import kept_promise, scores
from sparcal.server.data.unchanged import Unchanged
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
        assert kept_promise.broken_promise(connection, station, "", Unchanged()) is None
        judged(connection, 38, 2)
        assert kept_promise.broken_promise(connection, station, "", Unchanged()) is None


def test_many_rejects_contradict_it_until_somebody_finds_them_defective(database, station):
    with database.write() as connection:
        judged(connection, 30, 20)
        said = kept_promise.broken_promise(connection, station, "", Unchanged())
        assert said.startswith("20 of 50 parts were rejected, where at most")
        assert said.endswith("mark them so under Judge (D): such parts no longer count here.")
        for row in connection.execute("SELECT id FROM scores WHERE verdict = 'fail'").fetchall():
            scores.review(connection, row["id"], "defective", "A. Roth")
        assert kept_promise.broken_promise(connection, station, "", Unchanged()) is None


def test_a_threshold_set_by_hand_promises_nothing_until_the_calibrated_one_is_taken_back(database, station):
    def said():
        return kept_promise.broken_promise(connection, station, "", Unchanged())

    with database.write() as connection:
        judged(connection, 30, 20)
        station.set_thresholds(None, {"image": 9.0}, "A. Roth")
        assert said() is None
        for chosen in ({}, {"pixel": 9.0}):
            station.set_thresholds(None, chosen, "A. Roth")
            assert said() is not None


def test_a_part_counts_by_its_latest_finding_and_only_under_the_threshold_in_force(database, station, monkeypatch):
    asked = []
    monkeypatch.setattr(
        kept_promise, "check_promise", lambda _, *counts: asked.append(counts) or check_promise(_, *counts)
    )
    limit = kept_promise._own_threshold(tuple(OWN)).value
    findings = [(), ("good",), ("defective",), ("good", "defective"), ("defective", "good"), ("defective", "defective")]
    with database.write() as connection:
        for number, (verdict, words) in enumerate(product(("pass", "fail"), findings)):
            sha = f"{number:064x}"
            add_image(connection, sha, f"{number}.png")
            scores.add(connection, sha, "", {"score": 1.0, "threshold": limit, "verdict": verdict})
            for word in words:
                scores.review(connection, number + 1, word, "A. Roth")
        add_image(connection, "f" * 64, "other.png")
        scores.add(connection, "f" * 64, "", {"score": 1.0, "threshold": limit + 1, "verdict": "fail"})
        kept_promise.broken_promise(connection, station, "", Unchanged())
    good = sum(not words or words[-1] == "good" for words in findings)
    assert asked == [(2 * good, good)]


def test_nothing_is_promised_by_a_threshold_that_was_set_by_hand(database, station):
    station.override(None).parent.mkdir()
    station.override(None).write_text(
        '{"image": 0.5, "operator": null, "time": "2026-01-02"}'
    )  # as version 0.1 wrote it
    with database.write() as connection:
        judged(connection, 0, 50)
        assert kept_promise.broken_promise(connection, station, "", Unchanged()) is None
        station.override(None).write_text("damaged")
        assert kept_promise.broken_promise(connection, station, "", Unchanged()) is None
