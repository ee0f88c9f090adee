"""From images to a lot, and to another self-test: what is refused, in one sentence, with nothing lost."""

from __future__ import annotations

import errno
import shutil

import numpy as np
import pytest

from sparcal.calibration.planted import draw_defects
from sparcal.corrections import STATION_REFERENCE
from sparcal.errors import ArtifactError, DataError, FullDiskError
from sparcal.files.json_record import read_json
from sparcal.station.station import Station
from tests.support.tiny_station import SIZE, TinyEncoder, demo, pictures

NORMALS = pictures(demo("moved").lot_good)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A station with a corrected lot, one that keeps the station's reference, and one of two parts."""
    path = tmp_path_factory.mktemp("made") / "station"
    station = Station.fit(pictures(demo().train), path=path, encoder=TinyEncoder())
    station.calibrate(NORMALS[:6], "corrected", correction="sparc-recentred")
    station.calibrate(NORMALS[:6], "kept", correction=STATION_REFERENCE)
    station.calibrate(NORMALS[:2], "two", correction="sparc")
    return path


@pytest.fixture
def station(made, tmp_path):
    return Station.open(shutil.copytree(made, tmp_path / "station"), encoder=TinyEncoder())


def everything(path):
    """Every file of a station and its bytes, but for locks."""
    return {p.relative_to(path): p.read_bytes() for p in path.rglob("*") if p.is_file() and ".lock" not in p.name}


@pytest.mark.parametrize("count", [0, 1, 33, 60])
def test_too_few_and_too_many_normals_are_told_before_any_is_encoded(station, count):
    before, calls = everything(station.path), station.encoder.calls
    shown = [NORMALS[i % len(NORMALS)] for i in range(count)]
    message = (
        "No images were given" if count == 0
        else f"A lot needs at least 2 calibration images, got {count}: show it 2 to 32 good parts." if count < 2
        else f"A lot takes at most 32 calibration images, got {count}: show it fewer, 8 are usually enough."
    )  # fmt: skip
    for call in (lambda: station.calibrate(shown, "x"), lambda: station.check(shown)):
        with pytest.raises(DataError) as caught:
            call()
        if count:
            assert str(caught.value) == message
    assert station.encoder.calls == calls
    assert everything(station.path) == before


def test_up_to_32_normals_are_taken(station):
    shown = [*NORMALS, *pictures(demo("moved", seed=5).lot_good)][:32]
    lot = station.calibrate(shown, "many")
    assert len(lot.record.images) == len(lot.record.image.lot) == 32
    ranks = [one.settings["rank"] for one in lot.record.choice.trials if "rank" in one.settings]
    assert ranks == [7, 15]


def test_normals_of_another_size_are_refused_and_nothing_is_lost(station):
    before = everything(station.path)
    with pytest.raises(DataError, match=f"image-1 must have {SIZE} x {SIZE} colour pixels .* got 48 x {SIZE}"):
        station.calibrate([NORMALS[0], NORMALS[1][:48], NORMALS[2]], "x")
    assert everything(station.path) == before


def test_a_normal_that_cannot_be_read_is_named(station, tmp_path):
    (tmp_path / "broken.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"broken\.png must be a readable PNG"):
        station.calibrate([NORMALS[0], tmp_path / "broken.png", NORMALS[1]], "x")


@pytest.mark.parametrize("correction", ["sparc", STATION_REFERENCE])
@pytest.mark.parametrize(
    "where",
    [
        "sparcal.station.lot_writing.save",
        "sparcal.station.lot_writing.save_file",
        "sparcal.station.kept_images.open_image",
        "sparcal.station.lot_writing.write_record",
        "sparcal.station.folder.settle",
        "sparcal.files.chained_lines.os.write",
    ],
)
def test_a_full_disk_leaves_no_lot_and_no_litter(station, where, correction, monkeypatch):
    if where.endswith(".save") and correction == STATION_REFERENCE:
        pytest.skip("shares the station's own file")

    def full(*_args, **_kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    lots = [lot.name for lot in station.lots()]
    monkeypatch.setattr(where, full)
    with pytest.raises(FullDiskError) as caught:
        station.calibrate(NORMALS[:3], "x", correction=correction, activate=False)
    assert str(caught.value).startswith(f"{station.path} needs more free space on its disk, got ")
    monkeypatch.undo()
    again = Station.open(station.path, encoder=TinyEncoder())
    left = [p.name for p in station.path.rglob(".*") if p.name not in {".lock", ".fit.lock"}]
    assert left == []
    if where.endswith("os.write"):  # the lot was whole; only the line about it could not be written
        assert [lot.name for lot in again.lots()] == [*lots, "x"]
        return
    assert [lot.name for lot in again.lots()] == lots
    assert again.calibrate(NORMALS[:3], "x", correction=correction).name == "x"


def test_a_full_disk_while_fitting_leaves_no_station_and_the_same_call_goes_on(tmp_path, monkeypatch):
    def full(*_args, **_kwargs):
        raise RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("sparcal.station.fit.save_file", full)
    with pytest.raises(FullDiskError, match="needs more free space on its disk"):
        Station.fit(pictures(demo().train), path=tmp_path / "s", encoder=TinyEncoder())
    assert not (tmp_path / "s" / "station.json").exists()
    monkeypatch.undo()
    assert len(Station.fit(pictures(demo().train), path=tmp_path / "s", encoder=TinyEncoder()).record.images) == 24


def test_where_no_outline_is_found_all_of_the_image_counts_and_a_check_says_so(tmp_path):
    rng = np.random.default_rng(0)
    woven = rng.integers(60, 200, (12, SIZE, SIZE, 3), dtype=np.uint8)  # a surface that fills the image
    station = Station.fit(list(woven[:8]), path=tmp_path / "s", encoder=TinyEncoder())
    lot = station.calibrate(list(woven[8:]), "x", correction="sparc")
    (check,) = [one for one in lot.record.checks if one.name == "outline"]
    assert (check.number, check.verdict) == (1.0, "ok")
    assert check.sentence.endswith(("all of the image counts.", "all of it counts."))


# Testing again


@pytest.mark.parametrize("name", ["corrected", "kept"])
def test_the_self_test_of_a_lot_can_be_repeated(station, name):
    written = station.lot(name).record.self_test
    again = station.self_test(name)
    assert (again.planted, again.found, again.defects) == (written.planted, written.found, written.defects)
    other = station.self_test(name, n=10, seed=3)
    assert (other.planted, other.faint[1], other.seed) == (10, 5, 3)
    assert sorted(one.seed for one in other.defects) == sorted(one.seed for one in draw_defects(10, 3))


def test_the_self_test_of_the_station_can_be_repeated(station):
    station.activate(None)
    written = station.record.self_test
    again = station.self_test()
    assert (again.planted, again.found, again.defects) == (written.planted, written.found, written.defects)


def test_a_threshold_set_by_hand_is_the_one_that_is_tested(station):
    station.set_threshold("corrected", 1e9, pixel=1e9)
    tested = station.self_test("corrected", n=8)
    assert (tested.found, tested.marked) == (0, 0)
    station.set_threshold("corrected", 0.0, pixel=0.0)
    tested = station.self_test("corrected", n=8)
    assert (tested.found, tested.marked) == (8, 8)


def test_two_parts_are_too_few_to_test(station):
    assert station.lot("two").record.self_test is None
    with pytest.raises(DataError) as caught:
        station.self_test("two")
    assert str(caught.value) == ("The lot 'two' rests on 2 images, too few to leave one out: calibrate on at least 3.")


def test_more_planted_defects_than_memory_holds_are_refused_before_the_work(station, monkeypatch):
    monkeypatch.setattr("sparcal.memory.available_bytes", lambda: 10_000_000)
    with pytest.raises(
        DataError, match="Planting 100000 defects needs about .* of memory, got 10 MB free: plant fewer"
    ):
        station.self_test("corrected", n=100_000)


def test_a_self_test_needs_a_defect(station):
    with pytest.raises(
        DataError, match="number of planted defects must be a whole number of at least 1, got 0: ask for"
    ):
        station.self_test("corrected", n=0)


def test_a_kept_image_that_was_changed_is_refused(station):
    image = station.lot("corrected").folder / "part-002.png"
    image.chmod(0o644)
    image.write_bytes(image.read_bytes() + b"x")
    with pytest.raises(
        ArtifactError, match=r"part-002\.png was expected to be as it was written, got a missing or changed"
    ):
        station.self_test("corrected")


def test_two_normals_are_taken_unchecked_and_said_so(station):
    lot = station.calibrate(NORMALS[:2], "auto of two")
    choice = lot.record.choice
    assert choice.trials == ()
    assert "2 images are too few" in choice.sentence
    assert "asked for" not in choice.sentence
    assert read_json(lot.folder / "lot.json")["asked"] == "auto"
