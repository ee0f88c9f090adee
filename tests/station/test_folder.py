"""The folder of a station: any name, writers at once, files that are damaged, foreign or left over."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from sparcal.errors import ArtifactError, BusyError, DataError
from sparcal.files.json_record import read_json, record_digest, write_json
from sparcal.station.station import Station
from tests.support.tiny_station import TinyEncoder, demo, left_overs, pictures


@pytest.mark.parametrize("name", ["L 42/b", "Größe №7", "🔩👩‍🔧", "..x", "con", "a" * 200, "50%", "a:b*c?"])
def test_any_printable_name_will_do(station, name):
    station.calibrate(pictures(demo().lot_good[:3]), name, correction="identity")
    assert station.lot(name).name == name
    assert name in [lot.name for lot in station.lots()]
    assert station.folder.lot(name).parent == station.folder.lots
    assert station.set_threshold(name, 1.0).threshold.value == 1.0


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "needs a name of at least one character"),
        ("  ", "needs a name of at least one character"),
        (".", "other than . and .., got '.'"),
        ("a\nb", "must be printable, got 'a\\nb' with U+000A"),
        ("a\u202eb", "with U+202E"),
        ("x" * 201, "may have 200 characters, got 201"),
    ],
)
def test_names_that_are_none_are_refused(station, name, why):
    with pytest.raises(DataError) as caught:
        station.calibrate(pictures(demo().lot_good[:3]), name)
    assert why in str(caught.value)


def test_long_names_that_begin_alike_are_two_lots(station):
    for end in "ab":
        station.calibrate(pictures(demo().lot_good[:3]), "😀" * 60 + end, correction="identity")
    assert len(station.lots()) == 3


def test_a_lot_never_changes(station):
    with pytest.raises(DataError, match="has a lot 'L1' already, and lots never change: take another name"):
        station.calibrate(pictures(demo().lot_good[:3]), "L1")


def test_of_two_calibrations_at_once_with_one_name_one_wins(path, record_property):
    def calibrate(_):
        try:
            return Station.open(path, encoder=TinyEncoder()).calibrate(pictures(demo().lot_good[:3]), "same").name
        except DataError as error:
            return str(error)

    with ThreadPoolExecutor(4) as pool:
        said = list(pool.map(calibrate, range(4)))
    record_property("tried", len(said))
    assert said.count("same") == 1
    assert all("already" in one for one in said if one != "same")
    assert left_overs(path) == []


def test_two_calibrations_at_once_with_two_names_both_stand(path, record_property):
    def calibrate(name):
        return Station.open(path, encoder=TinyEncoder()).calibrate(pictures(demo().lot_good[:3]), name).name

    record_property("tried", 2)
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(calibrate, ["a", "b"])) == ["a", "b"]
    assert {lot.name for lot in Station.open(path).lots()} == {"L1", "a", "b"}


def test_two_fits_at_once_are_refused(path, record_property):
    station = Station.open(path, encoder=TinyEncoder())
    record_property("tried", 2)
    with station.folder.fitting(), pytest.raises(BusyError, match="can be written by one process at a time"):
        station.add(pictures(demo().lot_good[:3]))


@pytest.mark.parametrize("file", ["reference.safetensors", "correction.safetensors"])
def test_a_changed_lot_is_refused(path, file):
    target = path / "lots" / "L1" / file
    content = bytearray(target.read_bytes())
    content[-1] ^= 1
    target.chmod(0o644)
    target.write_bytes(content)
    with pytest.raises(ArtifactError, match="was expected to be as it was written, got a missing or changed file"):
        Station.open(path, encoder=TinyEncoder()).lot("L1").score(pictures(demo().lot_good[:1]))


def test_changed_features_are_refused(path):
    shard = next((path / "features").iterdir())
    content = bytearray(shard.read_bytes())
    content[-1] ^= 1
    shard.write_bytes(content)
    with pytest.raises(ArtifactError, match="got a damaged one: restore it from a copy"):
        Station.open(path, encoder=TinyEncoder()).calibrate(pictures(demo().lot_good[:3]), "x")


def test_a_pipe_in_the_place_of_features_is_not_waited_for(path):
    shard = next((path / "features").iterdir())
    shard.unlink()
    os.mkfifo(shard)
    with pytest.raises(ArtifactError, match="got a damaged one: restore it from a copy"):
        Station.open(path, encoder=TinyEncoder()).calibrate(pictures(demo().lot_good[:3]), "x")


def test_missing_features_are_refused(path):
    shutil.rmtree(path / "features")
    with pytest.raises(ArtifactError, match="The features of 24 of 24 training images are not in"):
        Station.open(path, encoder=TinyEncoder()).calibrate(pictures(demo().lot_good[:3]), "x")


def test_a_changed_record_is_refused(path):
    record = read_json(path / "station.json")
    record["host"] = "padim"
    write_json(path / "station.json", record)
    with pytest.raises(ArtifactError, match="does not match its own digest, so it was changed or damaged"):
        Station.open(path)
    (path / "station.json").write_text("{", encoding="utf-8")
    with pytest.raises(ArtifactError, match="was expected to be a JSON file, got one that cannot be read"):
        Station.open(path)


def test_a_station_of_another_version_is_refused(path):
    record = read_json(path / "station.json")
    record |= {"format": 99, "versions": {"sparcal": "7.0"}}
    write_json(path / "station.json", {**record, "digest": record_digest(record)})
    with pytest.raises(
        ArtifactError, match=r"has format 99, this sparcal reads 1: use the sparcal that wrote it \(7.0\)"
    ):
        Station.open(path)


def test_places_that_cannot_hold_a_station_are_refused(path, tmp_path):
    images, encoder = pictures(demo().train[:3]), TinyEncoder()
    with pytest.raises(DataError, match="There is a station at .* already: choose another folder, or add images"):
        Station.fit(images, path=path, encoder=encoder)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").touch()
    with pytest.raises(DataError, match=r"needs a new or empty folder, got .*full with letter.txt in it"):
        Station.fit(images, path=tmp_path / "full", encoder=encoder)
    with pytest.raises(DataError, match="needs a folder, got the file"):
        Station.fit(images, path=tmp_path / "full" / "letter.txt", encoder=encoder)
    with pytest.raises(ArtifactError, match="There is no station at .*full"):
        Station.open(tmp_path / "full")


def test_what_a_killed_writer_left_is_swept_and_what_a_living_one_has_stays(path):
    dead = path / ".tmp-dead"
    dead.mkdir()
    (dead / "half.safetensors").write_bytes(b"half")
    (path / ".station.json.x.tmp").write_text("half")
    (path / "features" / ".abc.draft").write_text("half")
    (path / "references" / "unused").mkdir()
    station = Station.open(path)
    with station.folder.workplace() as living:
        Station.open(path)
        assert living.exists()
    assert left_overs(path) == []
    assert [p.name for p in (path / "references").iterdir()] == [station.record.reference]


def test_a_line_of_history_that_was_cut_short_is_passed_over(station):
    with (station.path / "history.jsonl").open("a") as stream:
        stream.write('{"time": "2026')
    station.activate(None)
    assert [event["event"] for event in station.history()] == ["fit", "calibrate", "activate"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_read_only_station_scores_and_refuses_to_be_written(path):
    for folder in [path, *path.rglob("*")]:
        folder.chmod(0o555 if folder.is_dir() else 0o444)
    try:
        station = Station.open(path, encoder=TinyEncoder())
        assert station.lot("L1").score(pictures(demo().lot_good[:1]))[0].score is not None
        with pytest.raises(PermissionError):
            station.activate(None)
    finally:
        for folder in [path, *path.rglob("*")]:
            folder.chmod(0o755)
