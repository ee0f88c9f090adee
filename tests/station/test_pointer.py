"""What is in service, the active lot and thresholds set by hand: never lost, exchanged or changed in silence."""

from __future__ import annotations

import json

import pytest

from sparcal.errors import ArtifactError
from sparcal.files.chained_lines import add_line, read_lines
from sparcal.station.folder import StationFolder
from sparcal.station.pointer import active_lot_name, point_at, set_by_hand, thresholds_by_hand


def activate(folder, lot):
    if lot is not None:
        folder.lot(lot).mkdir(parents=True, exist_ok=True)
    since = folder.set_active(lot)
    folder.log("activate", {"lot": lot}, time=since)


@pytest.fixture
def folder(tmp_path):
    return StationFolder(tmp_path)


def test_the_active_lot_is_the_last_one(folder):
    assert folder.active() is None
    for lot in ("L1", "L2", None, "L1"):
        activate(folder, lot)
        assert folder.active() == lot


def test_a_lost_pointer_does_not_go_back_to_the_stations_own_reference(folder):
    activate(folder, "L1")
    (folder.root / "active").unlink()
    with pytest.raises(
        ArtifactError, match=r"expected to name the active lot, 'L1' by the history, got no file: activ"
    ):
        folder.active()


def test_a_lot_that_has_gone_does_not_go_back_to_the_stations_own_reference(folder):
    activate(folder, "L1")
    activate(folder, "L2")
    folder.lot("L2").rmdir()
    with pytest.raises(ArtifactError, match="lots/L2 was expected to hold the active lot 'L2', got no folder: restore"):
        folder.active()
    activate(folder, None)
    assert folder.active() is None


def test_an_old_copy_and_another_stations_pointer_are_refused(folder, tmp_path_factory):
    activate(folder, "L1")
    old = (folder.root / "active").read_bytes()
    activate(folder, "L2")
    new = (folder.root / "active").read_bytes()
    (folder.root / "active").write_bytes(old)
    with pytest.raises(ArtifactError, match="it is an old copy or of another station, so make the change again"):
        folder.active()
    (folder.root / "active").write_bytes(new)
    assert folder.active() == "L2"
    other = StationFolder(tmp_path_factory.mktemp("other"))
    activate(other, "L1")
    (folder.root / "active").write_bytes((other.root / "active").read_bytes())
    with pytest.raises(ArtifactError, match="old copy or of another station"):
        folder.active()


def test_a_kill_between_the_two_writes_is_fine(folder):
    activate(folder, "L1")
    folder.lot("L2").mkdir()
    folder.set_active("L2")
    assert folder.active() == "L2"
    activate(folder, "L3")
    assert folder.active() == "L3"


def test_a_lost_history_does_not_stop_the_line(folder):
    activate(folder, "L1")
    (folder.root / "history.jsonl").unlink()
    assert folder.active() == "L1"
    assert "got none: restore it from a copy" in folder.history_damage()


def test_a_history_whose_end_is_lost_says_so(folder):
    for name in ("L1", "L2"):
        folder.lot(name).mkdir(parents=True)
        folder.log("calibrate", {"lot": name, "active": False})
    folder.set_thresholds("L2", {"image": 2.0}, None)
    path = folder.root / "history.jsonl"
    whole = path.read_bytes().splitlines(keepends=True)
    assert folder.history_damage() is None
    path.write_bytes(b"".join(whole[:2]))  # as a kill between a file and its line leaves it
    assert folder.history_damage() is None
    path.write_bytes(whole[0])
    assert "got no line about lots/L2 and 1 more: restore it from a copy" in folder.history_damage()


def test_files_of_version_0_1_are_taken_as_they_are_and_replaced_by_the_next_change(folder):
    folder.lot("L1").mkdir(parents=True)
    (folder.root / "active").write_text(json.dumps({"lot": "L1", "since": "2025-01-01T00:00:00.000+00:00"}))
    add_line(folder.root / "history.jsonl", {"time": "2025-01-01T00:00:01.000+00:00", "event": "activate", "lot": "L1"})
    assert folder.active() == "L1"
    folder.overrides.mkdir()
    folder.override("L1").write_text(json.dumps({"image": 3.0, "operator": None, "time": "2025-01-01"}))
    assert folder.thresholds("L1") == {"image": 3.0}
    activate(folder, "L2")
    assert json.loads((folder.root / "active").read_text())["kind"] == "active lot"


def test_thresholds_by_hand_are_kept_and_taken_back(folder):
    folder.set_thresholds("L1", {"image": 2.5}, "Ada")
    assert folder.thresholds("L1") == {"image": 2.5}
    assert folder.thresholds(None) == {}
    folder.set_thresholds("L1", {}, None)
    assert folder.thresholds("L1") == {}
    folder.set_thresholds(None, {"pixel": 1.0}, None)
    assert folder.thresholds(None) == {"pixel": 1.0}


def test_thresholds_that_are_lost_changed_or_of_another_lot_are_refused(folder):
    folder.set_thresholds("L1", {"image": 2.5}, None)
    folder.set_thresholds("L2", {"image": 9.5}, None)
    whole = folder.override("L1").read_text()
    folder.override("L1").write_text(whole.replace("2.5", "9.5"))
    with pytest.raises(ArtifactError, match="does not match its own digest"):
        folder.thresholds("L1")
    folder.override("L1").write_bytes(folder.override("L2").read_bytes())
    with pytest.raises(ArtifactError, match="expected to be about lot 'L1', got 'L2'"):
        folder.thresholds("L1")
    folder.override("L1").unlink()
    with pytest.raises(ArtifactError, match="expected to hold the thresholds that were set by hand on .*, got no file"):
        folder.thresholds("L1")


def test_no_field_can_be_taken_out_to_pass_for_version_0_1(folder):
    folder.set_thresholds("L1", {"image": 2.5}, None)
    record = json.loads(folder.override("L1").read_text())
    del record["digest"]
    folder.override("L1").write_text(json.dumps({**record, "image": 0.1}))
    with pytest.raises(ArtifactError, match="does not match its own digest"):
        folder.thresholds("L1")


def test_both_work_on_plain_histories(tmp_path):
    history = read_lines(tmp_path / "none").entries
    point_at(tmp_path / "active", "L1", history)
    assert active_lot_name(tmp_path / "active", history, lambda _name: tmp_path) == "L1"
    set_by_hand(tmp_path / "hand", "L1", {"image": 1.0}, history, operator=None)
    assert thresholds_by_hand(tmp_path / "hand", "L1", history) == {"image": 1.0}
