"""Scores: decisions about them stay, and their table is safe in a spreadsheet."""

from __future__ import annotations

import sqlite3

import pytest

from sparcal.server.data import scores
from tests.support.unstaffed import SHA, add_image


def test_decisions_are_kept_whatever_somebody_tries(database):
    with database.write() as connection:
        add_image(connection)
        scores.add(connection, SHA, "L1", {"score": 3.0, "threshold": 2.0, "verdict": "fail"})
        scores.review(connection, 1, "good", "A. Roth")
        scores.review(connection, 1, "defective", "B. Kern")
    for statement in ("UPDATE decisions SET operator = 'x'", "DELETE FROM decisions"):
        with pytest.raises(sqlite3.IntegrityError, match="decisions are kept"), database.write() as connection:
            connection.execute(statement)
    with database.read() as connection:
        row = scores.read_score(connection, 1)
        assert (row["decision"], row["operator"], scores.final_verdict(row)) == ("confirm", "B. Kern", "fail")
        assert connection.execute("SELECT count(*) FROM decisions").fetchone()[0] == 2


def test_the_csv_disarms_formulas(database):
    with database.write() as connection:
        add_image(connection)
        connection.execute("UPDATE images SET name = '=cmd()'")
        scores.add(connection, SHA, "-L1", {"score": 3.0, "threshold": 2.0, "verdict": "fail"})
        scores.review(connection, 1, "good", "@sum")
        lines = scores.as_csv(scores.read_scores(connection, "-L1")).splitlines()
    assert lines[1].startswith(f"'=cmd(),{SHA},'-L1,3,2,fail,good,'@sum,")
    assert lines[1].endswith(",pass,")
