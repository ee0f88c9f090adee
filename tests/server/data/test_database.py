"""The database: all or nothing, versions, and processes that are killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import time

import pytest

from sparcal.errors import ArtifactError
from sparcal.server.data import database as databases
from sparcal.server.data import drafts, retention, scores
from sparcal.server.data.database import Database
from sparcal.server.data.trend import lot_counts
from tests.support.unstaffed import SHA, add_image


def test_a_transaction_that_fails_leaves_nothing(database):
    def stumble():
        with database.write() as connection:
            drafts.create(connection, "L1")
            raise ValueError("half way")

    with pytest.raises(ValueError, match="half way"):
        stumble()
    with database.read() as connection:
        assert drafts.open_drafts(connection) == []


def test_a_database_of_another_version_is_refused(database):
    with database.write() as connection:
        connection.execute("PRAGMA user_version=99")
    with pytest.raises(ArtifactError, match="has version 99, this sparcal reads 6"):
        Database.at(database.path.parent)


def test_a_database_of_the_first_version_is_brought_up(tmp_path):
    (tmp_path / "web").mkdir()
    old = sqlite3.connect(tmp_path / "web/station.sqlite3", isolation_level=None)
    for statement in databases._statements(databases._FIRST + databases._counting(databases._WATCHED)):
        old.execute(statement)
    for sha in ("aa", "bb"):
        old.execute("INSERT INTO images VALUES (?, 'a.png', 10, 'png', 'ready', 4, 3, NULL, '')", (sha,))
        old.execute("INSERT INTO arrivals VALUES (?, 'L1')", (sha,))
    old.execute("INSERT INTO scores (sha, lot, score, verdict, created) VALUES ('aa', 'L1', 1, 'pass', '')")
    old.execute("PRAGMA user_version=1")
    old.close()
    with Database.at(tmp_path / "web").write() as connection:
        assert scores.waiting(connection, "L1") == ["bb"]
        assert connection.execute("PRAGMA user_version").fetchone()[0] == databases.VERSION
        assert retention.may_go(connection)[0]["sha"] == "aa"
        assert scores.counts(connection, "L1")["passed"] == 1
        scores.add(connection, "bb", "L1", {"problem": "It cannot be scored."})
        assert lot_counts(connection) == {"L1": {"scored": 2, "passed": 1, "failed": 0}}


def write_for_ever(path, answered):
    database = Database(path)
    while True:
        with database.write() as connection:
            scores.review(connection, 1, "defective", "A. Roth")
        answered.value += 1


def test_a_killed_process_loses_no_decision_that_it_answered(database, record_property):
    with database.write() as connection:
        add_image(connection)
        scores.add(connection, SHA, "L1", {"score": 3.0, "threshold": 2.0, "verdict": "fail"})
    context = multiprocessing.get_context("spawn")
    record_property("tried", 3)
    for _ in range(3):
        answered = context.Value("q", 0)
        with database.read() as connection:
            before = connection.execute("SELECT count(*) FROM decisions").fetchone()[0]
        process = context.Process(target=write_for_ever, args=(database.path, answered))
        process.start()
        while answered.value < 5:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        with database.read() as connection:
            kept = connection.execute("SELECT count(*) FROM decisions").fetchone()[0] - before
            assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert answered.value <= kept <= answered.value + 1
