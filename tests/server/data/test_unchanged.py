"""Pages that ask for the same are answered by one count, and nobody is told what was true before a change."""

from __future__ import annotations

from sparcal.server.data import scores
from sparcal.server.data.unchanged import Unchanged
from tests.support.unstaffed import add_image


def test_a_count_is_made_once_until_something_changes(database):
    known, asked = Unchanged(), []

    def count(lot):
        with database.read() as connection:
            return known.answer(
                connection, ("counts", lot), lambda: asked.append(lot) or scores.counts(connection, lot)["scored"]
            )

    assert [count("L1"), count("L1"), count("L2")] == [0, 0, 0]
    assert asked == ["L1", "L2"]
    with database.write() as connection:
        add_image(connection, "ab" * 32, "a.png")
        scores.add(connection, "ab" * 32, "L1", {"score": 1.0, "threshold": 2.0, "verdict": "pass"})
    assert [count("L1"), count("L1"), count("L2")] == [1, 1, 0]
    assert asked == ["L1", "L2"] * 2


def test_who_still_reads_what_was_before_is_told_that(database):
    known = Unchanged()
    ask = lambda connection: known.answer(connection, "n", lambda: scores.counts(connection, "")["scored"])  # noqa: E731
    with database.read() as before:
        assert ask(before) == 0
        with database.write() as connection:
            add_image(connection, "ab" * 32, "a.png")
            scores.add(connection, "ab" * 32, "", {"score": 1.0, "threshold": 2.0, "verdict": "pass"})
        with database.read() as after:
            assert (ask(after), ask(before), ask(after)) == (1, 0, 1)


def test_every_open_page_together_costs_one_count_of_all_parts(client):
    statements = []
    with client.app.state.context.database.read() as connection:
        connection.set_trace_callback(statements.append)
    for _ in range(5):
        assert client.get("/api/state").status_code == 200
    counting = [text for text in statements if "FROM tallies" in text]
    assert len(counting) == 1
