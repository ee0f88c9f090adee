"""Judging again: the new reference judges what the old one has judged, once, and both verdicts stay."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from sparcal.server.data import jobs, scores
from sparcal.server.data.again import ChosenParts, could_judge, judge_again, not_judged_yet, references, said_beside
from sparcal.server.data.trend import daily_counts, latest_points, lot_counts
from sparcal.server.refusals import ConflictError
from tests.support.unstaffed import add_image

SHAS = [f"{number:064x}" for number in range(4)]


@pytest.fixture
def judged(database):
    """Three parts that the station's own reference has failed, and one that could not be scored."""
    with database.write() as connection:
        for number, sha in enumerate(SHAS):
            add_image(connection, sha, name=f"part 100% {number}_a.png")
            measured = {"score": 3.0 + number, "threshold": 2.0, "verdict": "fail"}
            scores.add(connection, sha, "", measured if number < 3 else {"problem": "It is damaged."})
    return database


def test_what_was_judged_is_judged_again_once_and_both_verdicts_stay(judged):
    with judged.write() as connection:
        count, job = judge_again(connection, ChosenParts(""), "L1", operator="A. Roth")
        assert (count, scores.waiting(connection, "L1")) == (4, SHAS)
        with pytest.raises(ConflictError, match="No image is left to be judged again"):
            judge_again(connection, ChosenParts(""), "L1", operator="A. Roth")
        assert [row["id"] for row in jobs.recent(connection)] == [job]
        for sha in SHAS[:3]:
            scores.add(connection, sha, "L1", {"score": 1.0, "threshold": 2.0, "verdict": "pass"})
        new = scores.read_scores(connection, "L1", order="newest")[0]
        (old,) = scores.other_scores(connection, new)
        assert (new["verdict"], old["verdict"], old["lot"]) == ("pass", "fail", "")
        assert lot_counts(connection) == {
            "": {"scored": 4, "passed": 0, "failed": 3},
            "L1": {"scored": 3, "passed": 3, "failed": 0},
        }


def test_only_what_was_asked_for_is_judged_again(judged):
    with judged.write() as connection:
        connection.execute("UPDATE scores SET created = '2026-01-01T00:00:00.000+00:00' WHERE sha = ?", (SHAS[0],))
        connection.execute("UPDATE images SET state = 'removed' WHERE sha = ?", (SHAS[1],))
        assert not_judged_yet(connection, ChosenParts(""), "L1") == [SHAS[0], *SHAS[2:]]
        assert not_judged_yet(connection, ChosenParts("", since="2026-01-02T00:00:00.000Z"), "L1") == SHAS[2:]
        assert could_judge(connection, [*SHAS[:3], "ff" * 32], "L1") == {SHAS[0], SHAS[2]}
        chosen = ChosenParts("", shas=[SHAS[2], "ff" * 32])
        assert judge_again(connection, chosen, "L1", operator="A. Roth")[0] == 1
        assert could_judge(connection, SHAS, "L1") == {SHAS[0], SHAS[3]}, "what waits is on its way"
        with pytest.raises(ConflictError, match="judged by what is active now"):
            judge_again(connection, ChosenParts("L1"), "L1", operator="A. Roth")


def test_a_choice_is_what_the_list_shows_without_what_was_left_out(judged):
    with judged.write() as connection:
        scores.review(connection, 1, "good", "A. Roth")
        found = lambda **how: not_judged_yet(connection, ChosenParts("", **how), "L1")  # noqa: E731
        assert found(which="fail") == SHAS[:3]
        assert found(which="overruled") == SHAS[:1]
        assert found(which="open") == SHAS[1:3]
        assert found(search="100% 2_a") == [SHAS[2]]
        assert found(which="fail", search="100%", without=[SHAS[1], "ff" * 32]) == [SHAS[0], SHAS[2]]
        chosen = ChosenParts("", which="fail", without=SHAS[:2])
        assert judge_again(connection, chosen, "L1", operator="A. Roth")[0] == 1
        assert scores.waiting(connection, "L1") == [SHAS[2]]


def test_the_verdict_of_the_latest_other_reference_stands_beside(judged):
    with judged.write() as connection:
        assert (references(connection, limit=9), said_beside(connection, SHAS, "")) == ([""], {})
        for lot, verdict in (("L1", "pass"), ("A lot", "fail")):
            scores.add(connection, SHAS[0], lot, {"score": 1.0, "threshold": 2.0, "verdict": verdict})
        beside = {sha: tuple(row)[1:3] for sha, row in said_beside(connection, SHAS, "").items()}
        assert beside == {SHAS[0]: ("A lot", "fail")}
        beside = {sha: tuple(row)[1:3] for sha, row in said_beside(connection, SHAS, "A lot").items()}
        assert beside == {SHAS[0]: ("L1", "pass"), **dict.fromkeys(SHAS[1:3], ("", "fail")), SHAS[3]: ("", None)}
        connection.execute("UPDATE tallies SET quarter = quarter + 1 WHERE lot = 'L1'")
        assert references(connection, limit=9) == ["L1", "A lot", ""]
        assert references(connection, limit=1) == ["L1"]


def test_the_run_of_scores_is_told_in_order_and_by_day(judged):
    with judged.read() as connection:
        points = latest_points(connection, limit=2)
        assert [point["score"] for point in points] == [4.0, 5.0], "the latest, oldest first, without what has no score"
        (day,) = daily_counts(connection, days=30)
    assert (day["lot"], day["passed"], day["failed"], day["errors"]) == ("", 0, 3, 1)


def test_a_day_is_the_stations_day_and_counts_every_part_once(database, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Kathmandu")  # 5:45 ahead: midnight is at 18:15 in UTC
    time.tzset()
    try:
        with database.write() as connection:
            today = datetime.now(UTC).replace(hour=18, minute=0) - timedelta(days=2)
            for number, minute in enumerate((14, 15, 16)):
                sha = f"{number:064x}"
                add_image(connection, sha, f"{number}.png")
                connection.execute(
                    "INSERT INTO scores (sha, lot, verdict, created) VALUES (?, 'L1', 'fail', ?)",
                    (sha, today.replace(minute=minute).isoformat(timespec="milliseconds")),
                )
                scores.add(connection, sha, "L1", {"verdict": "pass"})  # the first score stays
            days = daily_counts(connection, days=30)
    finally:
        monkeypatch.undo()
        time.tzset()
    first = today.date()
    assert [(day["day"], day["passed"], day["failed"]) for day in days] == [
        (str(first + timedelta(days=1)), 0, 2),
        (str(first), 0, 1),
    ]


def test_parts_are_found_by_name_filter_and_order(judged):
    with judged.write() as connection:
        scores.review(connection, 1, "good", "A. Roth")
        names = lambda **how: [row["name"][-7] for row in scores.read_scores(connection, "", **how)]  # noqa: E731
        assert names(order="newest") == ["3", "2", "1", "0"]
        assert names(order="worst") == ["3", "2", "1", "0"]
        assert names(which="open") == ["2", "1"]
        assert names(which="pass") == []
        assert names(which="overruled") == ["0"]
        assert names(search="100% 2") == ["2"]
        assert names(search="_b") == names(search="100_") == names(search="\\") == []
