"""Decisions about lots: with a check at stop, nothing is accepted and nothing comes back without a reason."""

from __future__ import annotations

import pytest

from sparcal.server.data import audit, drafts
from sparcal.server.data.database import packed
from sparcal.server.data.lot_decisions import activate, decide_draft
from sparcal.server.data.lots import LotHistory, lot_differences, summary
from sparcal.server.data.report import lot_report
from sparcal.server.refusals import ConflictError
from sparcal.station.folder import StationFolder
from sparcal.station.station import Station
from tests.support.served import build_station


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("decisions") / "line-3"
    parts = build_station(folder, train=4, good=4, bad=0)
    files = [content for _, content in parts.good]
    station = Station.open(folder)
    station.calibrate(files[:3], "L1", operator="M. Weber", activate=False)
    station.calibrate([files[0], files[0]], "L2", operator="B. Kern", activate=False)  # the same part twice: a stop
    return StationFolder(folder)


@pytest.fixture
def stopped(database):
    """A calibrated draft of the lot that a check says stop to."""
    with database.write() as connection:
        draft = drafts.create(connection, "L2")
        checks = [{"name": "duplicates", "verdict": "stop"}]
        connection.execute(
            "UPDATE drafts SET state = 'calibrated', result = ? WHERE id = ?", (packed({"checks": checks}), draft)
        )
    return draft


def test_a_stop_stops_until_somebody_says_why(database, fitted, stopped):
    assert fitted.read_lot("L2")["verdict"] == "stop"
    for reason in (None, ""):
        with pytest.raises(
            ConflictError, match="A check says stop, so this lot judges only if somebody gives a reason"
        ):
            decide_draft(database, fitted, stopped, "accept", operator="B. Kern", reason=reason)
        with pytest.raises(ConflictError, match="A check says stop"):
            activate(database, fitted, "L2", operator="B. Kern", reason=reason)
    assert fitted.active() is None
    with database.read() as connection:
        assert drafts.read_draft(connection, stopped)["state"] == "calibrated"
    decide_draft(database, fitted, stopped, "accept", operator="B. Kern", reason="Only two parts were there.")
    assert fitted.active() == "L2"
    entry = audit.trail(database, fitted, limit=10)[0]
    assert entry["sentence"] == "accepted lot L2, although a check said stop: “Only two parts were there.”"
    assert entry["replaced"] == ""
    activate(database, fitted, "L1", operator="M. Weber")
    assert fitted.active() == "L1"
    with database.read() as connection:
        facts = LotHistory.of(connection, fitted)
    states = {record["name"]: summary(fitted, record, facts)["state"] for record in fitted.read_lots()}
    assert states == {"L1": "active", "L2": "replaced"}


def test_a_lot_without_a_stop_needs_no_reason(database, fitted):
    activate(database, fitted, "L1", operator="M. Weber")
    activate(database, fitted, None, operator="M. Weber")
    said = [entry["sentence"] for entry in audit.trail(database, fitted, limit=2)]
    assert said == ["went back to the station's own reference", "went back to lot L1"]


def test_a_threshold_by_hand_is_told_with_its_value_and_so_is_taking_it_back(database, fitted):
    for chosen in ({"image": 450.0}, {"image": 450.0, "pixel": 3.25}, {}):
        fitted.set_thresholds("L1", chosen, "M. Weber")
    fitted.set_thresholds(None, {"image": 2.0}, "M. Weber")
    fitted.set_thresholds(None, {}, "M. Weber")
    said = [entry["sentence"] for entry in audit.trail(database, fitted, limit=5)]
    assert said[::-1] == [
        "set the threshold of lot L1 by hand to 450",
        "set the threshold of lot L1 by hand to 450 and 3.25 for pixels",
        "took the calibrated threshold of lot L1 back",
        "set the threshold of the station's own reference by hand to 2",
        "took the calibrated threshold of the station's own reference back",
    ]


def test_lots_are_compared_and_reported_in_plain_words(database, fitted):
    rows = {row["what"]: (row["first"], row["second"]) for row in lot_differences(fitted, "L1", "L2")}
    assert rows["good parts shown"] == (3, 2)
    assert rows["good parts in both"] == (1, 1)
    assert rows["The same part twice?"] == ("ok", "stop")
    assert not any("lift" in what or "energy" in what for what in rows)
    report = lot_report(database, fitted, "L2")
    assert (report["lot"]["name"], report["counts"]["scored"], report["pairs"]) == ("L2", 0, [])
    stop = next(check for check in report["lot"]["checks"] if check["verdict"] == "stop")
    assert stop["plain"].startswith("The same part twice, or one that the station was fitted on: ")


def test_a_lot_that_judged_as_soon_as_it_was_calibrated_was_in_use(database, tmp_path):
    parts = build_station(tmp_path / "line-4", train=4, good=4, bad=0)
    files = [content for _, content in parts.good]
    station = Station.open(tmp_path / "line-4")
    station.calibrate(files[:3], "at once", reason="a test")
    station.calibrate(files[:3], "not yet", activate=False)
    folder = StationFolder(tmp_path / "line-4")
    folder.activate(None, "M. Weber")
    with database.read() as connection:
        facts = LotHistory.of(connection, folder)
    assert (facts.state("at once"), facts.state("not yet")) == ("replaced", "kept")
