"""Adding parts to the station: what a check says stop to is left out and named; overruled defects are never offered."""

from __future__ import annotations

import pytest

from sparcal.server.data import parts as good_parts
from sparcal.server.data import scores
from sparcal.server.data.jobs import Job
from sparcal.server.data.store import Store
from sparcal.server.refusals import ConflictError
from sparcal.server.settings import Limits
from sparcal.server.work.handlers import Tasks
from sparcal.station.folder import StationFolder
from tests.server.work.test_judging import Silent, arrive
from tests.support.served import build_station
from tests.support.unstaffed import SHA, add_image


def test_a_part_that_a_check_stops_is_left_out_and_named(tmp_path, database):
    lot = build_station(tmp_path / "line-3", good=7, bad=0)
    store = Store(database.path.parent, Limits())
    good = [arrive(database, store, *part) for part in lot.good[:6]]
    bad = arrive(database, store, *lot.smeared)
    tasks = Tasks(database, store, tmp_path / "line-3", None)
    message = tasks.run(Job(1, "fit", {"images": [*good, bad], "operator": "B. Kern"}, 1), Silent())
    assert message == (
        "6 of 7 parts are in the station now, 22 in all. Left out, because a check says stop: smeared.png."
    )
    held = {sha for _, sha in StationFolder(tmp_path / "line-3").read_station()["images"]}
    assert bad not in held
    assert set(good) <= held


def test_a_part_that_the_station_failed_is_never_offered(folder, database):
    with database.write() as connection:
        for number, verdict in enumerate(("pass", "fail")):
            add_image(connection, f"{number:064x}")
            scores.add(connection, f"{number:064x}", "L1", {"score": 3.0, "threshold": 2.0, "verdict": verdict})
            scores.review(connection, number + 1, "good", "A. Roth")
        station = StationFolder(folder)
        assert [row["sha"] for row in good_parts.offered(connection, station, "L1")] == ["0" * 64]
        for wrong in (f"{1:064x}", SHA):
            with pytest.raises(ConflictError, match="did not pass, was not found good, or is in the station"):
                good_parts.ask(connection, station, "L1", [wrong], operator="B. Kern")
        assert len(scores.found_good(connection, "L1")) == 2, "a new lot may begin with both: they are marked again"
