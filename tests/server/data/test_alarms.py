"""Alarms: what is kept about a shift, how it ends, and what a new worker learns from it."""

from __future__ import annotations

import pytest

from sparcal.files.json_record import write_json
from sparcal.server.data import alarms, audit, scores
from sparcal.server.refusals import ConflictError, NotFoundError
from sparcal.station.folder import StationFolder
from tests.support.unstaffed import add_image

WHAT = "the whole image is darker (-20%), not a local defect"


@pytest.fixture
def station(folder):
    return StationFolder(folder)


def judged(connection, count, *, lot="", first=0):
    """Scores of new parts, with a reading each; their numbers."""
    numbers = []
    for number in range(first, first + count):
        sha = f"{number:064x}"
        add_image(connection, sha, f"{number}.png")
        scores.add(connection, sha, lot, {"score": 1.0, "threshold": 2.0, "verdict": "pass"})
        numbers.append(alarms.keep_reading(connection, sha, lot, [float(number)]))
    return numbers


def raised(database, count=12, since=4):
    with database.write() as connection:
        numbers = judged(connection, count)
        return numbers, alarms.raise_alarm(connection, "", first=numbers[since], last=numbers[-1], what=WHAT)


def test_an_alarm_says_since_when_and_shows_the_latest_parts(database, station):
    numbers, alarm = raised(database)
    with database.read() as connection:
        found = alarms.open_alarm(connection, station, "")
    assert (found["id"], found["what"], found["count"]) == (alarm, WHAT, 8)
    assert [part["score"] for part in found["parts"]] == numbers[:-7:-1], "six of them, the latest first"
    assert found["outcome"] is None
    said = audit.trail(database, station, limit=10)[0]
    assert (said["operator"], said["sentence"]) == (
        "the station",
        f"noticed that parts judged by the station's own reference look different: {WHAT}",
    )


def test_it_is_over_once_dismissed_and_the_reason_stays(database, station):
    numbers, alarm = raised(database)
    with database.write() as connection:
        alarms.dismiss_alarm(connection, alarm, operator="A. Roth", reason="new lamp, same parts")
        later = judged(connection, 3, first=50)
        assert alarms.open_alarm(connection, station, "") is None
        assert alarms.read_alarm(connection, alarm)["outcome"] == "dismissed"
        with pytest.raises(ConflictError, match="This alarm is over"):
            alarms.dismiss_alarm(connection, alarm, operator="A. Roth", reason="again")
        normal, stream = alarms.kept_readings(connection, alarms.span_of(connection, station, ""))
    assert [row["score"] for row in normal] == numbers[4:], "what was declared in order"
    assert [row["score"] for row in stream] == later
    entry = audit.trail(database, station, limit=10)[0]
    assert (
        entry["sentence"] == "looked at parts that look different and holds them to be in order: “new lamp, same parts”"
    )


def test_another_lot_ends_it_and_begins_anew(database, station):
    raised(database)
    with database.write() as connection:
        alarms.end_alarms(connection)
        assert alarms.open_alarm(connection, station, "") is None
        assert alarms.latest_alarms(connection, limit=5)[0]["outcome"] == "another lot"
    write_json(station.root / "active", {"lot": None, "since": "2999-01-01T00:00:00.000+00:00"})
    with database.read() as connection:
        span = alarms.span_of(connection, station, "")
        assert alarms.kept_readings(connection, span) == ([], []), "a reference that judges anew is watched anew"


def test_an_alarm_of_what_no_longer_judges_is_not_shown(database, station):
    raised(database)
    write_json(station.root / "active", {"lot": None, "since": "2999-01-01T00:00:00.000+00:00"})
    with database.read() as connection:
        assert alarms.open_alarm(connection, station, "") is None
        assert alarms.open_alarm(connection, station, "another") is None


def test_unknown_alarms_are_not_found(database):
    with database.read() as connection, pytest.raises(NotFoundError, match="no alarm 7"):
        alarms.read_alarm(connection, 7)


def test_parts_whose_pictures_are_gone_are_not_offered(database):
    numbers, alarm = raised(database)
    with database.write() as connection:
        connection.execute("UPDATE images SET state = 'removed' WHERE rowid % 2 = 0")
        row = alarms.read_alarm(connection, alarm)
        found = alarms.parts_since(connection, "", row["first"])
    assert 0 < len(found) < len(numbers) - 4


def test_whether_shifts_are_watched_for_is_said(station):
    assert alarms.monitored(station, "").startswith("Shifts are not watched for: only 0 images")
