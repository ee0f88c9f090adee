"""Stations: fitted once and reopened, grown, calibrated, rolled back; what is damaged or foreign is refused."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from PIL import Image

from sparcal import score_lot
from sparcal.calibration.calibrate import OWN_PARTS
from sparcal.calibration.defaults import PLANTED
from sparcal.calibration.held_out import FOLDS
from sparcal.calibration.planted import draw_defects
from sparcal.corrections import CORRECTIONS
from sparcal.detectors import PaDiM, PatchCore
from sparcal.errors import ArtifactError, BusyError, DataError, FullDiskError, WeightsError
from sparcal.files.json_record import read_json, record_digest, write_json
from sparcal.hosts import load_host
from sparcal.imaging.encode import encode_each
from sparcal.imaging.maps import MapRule
from sparcal.score import reference_side
from sparcal.station.calibrating import LOT_SEED
from sparcal.station.station import Station
from sparcal.types import Features
from tests.support.tiny_station import SIZE, TinyEncoder, demo, pictures

TESTED = PLANTED + PLANTED // 2  # images with planted defects that are encoded for a self-test


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A fitted station with one calibrated lot; copied by tests that change it."""
    path = tmp_path_factory.mktemp("made") / "station"
    station = Station.fit(pictures(demo().train), "patchcore", path=path, encoder=TinyEncoder())
    station.calibrate(
        pictures(demo("lights").lot_good[:8]), "L1", correction="sparc-recentred", operator="Ada", activate=True
    )
    return path


@pytest.fixture
def path(made, tmp_path):
    return shutil.copytree(made, tmp_path / "station")


@pytest.fixture
def station(path):
    return Station.open(path, encoder=TinyEncoder())


def values(judged):
    return [one.score for one in judged]


def left_overs(path):
    return [p.name for p in path.rglob(".*") if p.name not in {".lock", ".fit.lock"}]


def test_a_reopened_station_scores_the_same_bytes(made):
    images = pictures(demo("lights").lot_bad)
    first, second = (Station.open(made, encoder=TinyEncoder()) for _ in range(2))
    assert values(first.lot("L1").score(images)) == values(second.lot("L1").score(images))
    assert values(first.own().score(images)) == values(second.own().score(images))


def test_company_and_threads_change_no_score(made):
    images = pictures(demo("lights").lot_good[8:16])
    one, many = Station.open(made, encoder=TinyEncoder()), Station.open(made, encoder=TinyEncoder(), workers=3)
    together = values(many.lot("L1").score(images))
    assert together == [one.lot("L1").score(image)[0].score for image in images]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A station whose reference is all of its features."""
    path = tmp_path_factory.mktemp("whole") / "station"
    detector = PatchCore(coreset=1, map_rule=MapRule(8))
    return Station.fit(pictures(demo().train), path=path, encoder=TinyEncoder(), detector=detector)


def scored_by_the_method(station, correction):
    """Scores of `demo("lights").lot_bad` by section 3 of the paper, everything fitted anew."""
    detector = copy.copy(station.detector)
    return score_lot(
        detector,
        features(demo("lights").lot_bad, station.encoder),
        reference=training_features(station),
        calibration=features(demo("lights").lot_good[:8], station.encoder),
        correction=CORRECTIONS[correction](),
    ).image.numpy()


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_a_lot_scores_as_the_method_does(whole, correction):
    lot = whole.calibrate(pictures(demo("lights").lot_good[:8]), f"as {correction}", correction=correction)
    expected = scored_by_the_method(whole, correction)
    np.testing.assert_allclose(values(lot.score(pictures(demo("lights").lot_bad))), expected, rtol=1e-5)


@pytest.mark.parametrize("correction", ["identity", "sparc", "sparc-recentred", "normals"])
def test_a_lot_on_a_coreset_keeps_the_stations_rows(station, correction):
    lot = station.calibrate(pictures(demo("lights").lot_good[:8]), f"as {correction}", correction=correction)
    corrected = reference_side(lot.calibrated.correction, training_features(station)).levels[0].flatten(0, 2)
    rows, bank = station.detector.rows, lot.calibrated.detector.bank_
    assert (len(bank) > len(rows)) == (correction == "normals")
    torch.testing.assert_close(bank[: len(rows)], corrected[rows])


@pytest.mark.slow
def test_rows_that_are_kept_move_scores_by_a_few_percent(tmp_path):
    """On the bundled encoder; the tiny one has too few channels for the rows to cover what SPARC leaves."""
    station = Station.fit(pictures(demo().train), path=tmp_path / "s", encoder="bundled?size=64")
    for correction in ("sparc", "sparc-recentred", "normals"):
        lot = station.calibrate(pictures(demo("lights").lot_good[:8]), correction, correction=correction)
        got = values(lot.score(pictures(demo("lights").lot_bad)))
        assert np.mean(got / scored_by_the_method(station, correction)) == pytest.approx(1, abs=0.05)


def training_features(station):
    return station.store().load([digest for _, digest in station.record.images])


def features(parts, encoder):
    seen = encode_each(encoder, pictures(parts))
    return Features.cat([one.features for one in seen])


def test_before_a_lot_the_station_scores_with_its_own_reference_and_says_so(tmp_path):
    station = Station.fit(pictures(demo().train), path=tmp_path / "s", encoder=TinyEncoder())
    assert station.lots() == []
    assert station.active() is None
    lot = station.lot()
    assert lot.name is None
    assert lot.title == "The station's own reference, not calibrated to any lot"
    judged = lot.score(pictures(demo().lot_good))
    assert sum(one.verdict == "fail" for one in judged) <= 3


def test_calibrating_writes_everything_that_an_audit_asks_for(station):
    record = station.lot("L1").record
    assert (record.name, record.operator, record.asked) == ("L1", "Ada", "sparc-recentred")
    assert record.station == station.digest
    assert len(record.images) == 8
    assert len({digest for _, digest in record.images}) == 8
    assert {"sparcal", "torch", "python"} <= set(record.versions)
    assert set(record.files) == {
        "reference.safetensors", "correction.safetensors", "maps.safetensors", "self-test.html",
        *(f"part-00{i}.png" for i in range(8)),
    }  # fmt: skip
    alone = {name for check in record.checks if check.name == "alone" for name in check.images}
    plain = [number for number, one in enumerate(draw_defects(PLANTED, LOT_SEED)) if one.plain]
    counted = [number for number in plain if f"image-{number % 8}" not in alone]
    assert record.self_test.planted == written_self_test(station)["planted"] == len(counted) < PLANTED
    assert written_self_test(station)["found"] == record.self_test.found
    assert [event["event"] for event in station.history()] == ["fit", "calibrate"]
    assert station.active() == "L1"
    assert station.lot().name == "L1"
    written = read_json(station.folder.lot("L1") / "lot.json")
    assert (
        sum(written["histogram"]["image"]["own"])
        == len(record.image.own)
        == min(len(station.record.images), FOLDS * (OWN_PARTS // FOLDS))
    )
    assert sum(written["histogram"]["pixel"]["lot"]) == len(record.pixel.lot) == 8
    assert {check["name"] for check in written["checks"]} == {
        "number", "duplicates", "alignment", "odd one out", "alone", "outline", "shift", "removed", "benefit", "threshold",
        "self-test",
    }  # fmt: skip


def written_self_test(station):
    return read_json(station.folder.lot("L1") / "lot.json")["self_test"]


def test_a_lot_cannot_be_written_to(station):
    for file in station.folder.lot("L1").iterdir():
        assert file.stat().st_mode & 0o222 == 0


def test_adding_images_encodes_only_what_is_new_and_leaves_lots_alone(station):
    encoder = station.encoder
    images = pictures(demo("lights").lot_good[8:12])
    before, calls = values(station.lot("L1").score(images)), encoder.calls
    own = station.own().record.image.own
    grown = station.add(pictures([*demo().train[:5], *demo().lot_good[:6]]), operator="Bo")
    assert encoder.calls == calls + 6 + TESTED
    assert len(grown.record.images) == 30
    assert len(grown.record.left_out) == 5
    assert "has the same content as" in grown.record.left_out[0][1]
    assert len(grown.own().record.image.own) == 30 != len(own)
    assert values(grown.lot("L1").score(images)) == before
    assert grown.lot("L1").record.station != grown.digest
    assert len(list(grown.folder.references.iterdir())) == 1
    assert grown.history()[-1]["operator"] == "Bo"


def test_adding_nothing_new_changes_nothing(station):
    digest = station.digest
    assert station.add(pictures(demo().train[:3])).digest == digest


def test_an_old_view_of_a_station_cannot_add(path):
    first, second = (Station.open(path, encoder=TinyEncoder()) for _ in range(2))
    first.add(pictures(demo().lot_good[:2]))
    with pytest.raises(ArtifactError, match="has changed since it was opened: open it again"):
        second.add(pictures(demo().lot_good[2:4]))


def test_fitting_goes_on_where_it_was_cut_short(tmp_path):
    class Breaks(TinyEncoder):
        def __call__(self, pixels):
            if self.calls == 18:
                raise KeyboardInterrupt
            return super().__call__(pixels)

    images = pictures(demo().train)
    with pytest.raises(KeyboardInterrupt):
        Station.fit(images, path=tmp_path / "s", encoder=Breaks())
    with pytest.raises(ArtifactError, match="There is no station at"):
        Station.open(tmp_path / "s")
    encoder = TinyEncoder()
    resumed = Station.fit(images, path=tmp_path / "s", encoder=encoder)
    assert encoder.calls == 24 - 16 + TESTED  # one shard of 16 was whole
    fresh = Station.fit(images, path=tmp_path / "t", encoder=TinyEncoder())
    assert resumed.record.own == fresh.record.own
    assert left_overs(tmp_path / "s") == []


def test_bad_training_images_are_left_out_and_named(tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    for number, part in enumerate(demo().train[:6]):
        Image.fromarray(part.image).save(folder / f"{number}.png")
    (folder / "broken.png").write_bytes(b"not an image")
    shutil.copy(folder / "0.png", folder / "again.png")
    with pytest.raises(
        DataError, match=r"at most 5% of the images are left out, got 2 of 8: take them away, or insist"
    ):
        Station.fit(folder, path=tmp_path / "s", encoder=TinyEncoder())
    station = Station.fit(folder, path=tmp_path / "s", encoder=TinyEncoder(), insist=True)
    assert len(station.record.images) == 6
    reasons = dict(station.record.left_out)
    assert "must be a readable PNG" in reasons[str(folder / "broken.png")]
    assert "has the same content as" in reasons[str(folder / "again.png")]


def test_a_station_of_another_detector_and_host(tmp_path):
    station = Station.fit(pictures(demo().train), "padim", path=tmp_path / "s", encoder=TinyEncoder())
    assert isinstance(Station.open(tmp_path / "s", encoder=TinyEncoder()).detector, PaDiM)
    lot = station.calibrate(pictures(demo("moved").lot_good[:5]), "m")
    assert len(lot.record.image.lot) == 5
    thin = Station.fit(
        pictures(demo().train), path=tmp_path / "t", encoder=TinyEncoder(), detector=PatchCore(coreset=0.5)
    )
    assert Station.open(thin.path, encoder=TinyEncoder()).detector.coreset == 0.5


def test_rolling_back_and_forth(station):
    station.calibrate(pictures(demo("moved").lot_good[:8]), "L2", activate=True)
    assert station.lot().name == "L2"
    assert station.activate("L1", operator="Cy").name == "L1"
    assert station.lot().name == "L1"
    assert station.activate(None).name is None
    assert station.active() is None
    assert [event["event"] for event in station.history()][-2:] == ["activate", "activate"]
    with pytest.raises(DataError, match=r"has no lot 'L3'; it has L1, L2\."):
        station.activate("L3")


def test_two_lots_side_by_side(station):
    station.calibrate(pictures(demo().lot_good[:6]), "L2", correction="sparc")
    rows = {row["what"]: (row["first"], row["second"]) for row in station.compare("L1", "L2")}
    assert rows["calibration images"] == (8, 6)
    assert rows["images in both"] == (0, 0)
    assert rows["correction"][1] == "sparc"
    assert rows["check: number"] == (8, 6)
    assert {row["what"]: row["second"] for row in station.compare("L1", None)}["threshold from"] == "own"


def test_a_threshold_set_by_hand_is_recorded_and_can_be_taken_back(station):
    calibrated = station.lot("L1").threshold
    lot = station.set_threshold("L1", 0.0, operator="Di")
    assert (lot.threshold.value, lot.threshold.basis) == (0.0, "by hand")
    assert lot.pixel_threshold == lot.record.pixel_threshold
    assert {one.verdict for one in lot.score(pictures(demo("lights").lot_good[8:10]))} == {"fail"}
    assert station.history()[-1] | {"time": ""} == {
        "time": "", "event": "threshold", "lot": "L1", "operator": "Di", "image": 0.0,
    }  # fmt: skip
    assert station.set_threshold("L1").threshold == calibrated
    assert station.set_threshold(None, 7.0, pixel=8.0).pixel_threshold.value == 8.0
    with pytest.raises(DataError, match="must be a finite number of at least 0, got nan"):
        station.set_threshold("L1", float("nan"))


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


def test_another_encoder_is_refused(path):
    with pytest.raises(WeightsError, match=r"was fitted with the encoder tiny\?seed=0, got tiny\?seed=1"):
        Station.open(path, encoder=TinyEncoder(id="tiny?seed=1"))
    with pytest.raises(WeightsError, match=r"fitted with an encoder object, got none: pass it to Station.open"):
        Station.open(path).lot("L1").score(pictures(demo().lot_good[:1]))


def test_missing_weights_are_named(path):
    record = read_json(path / "station.json")
    record |= {"encoder": "timm:resnet10t.c3_in1k", "weights": str(path / "gone.safetensors")}
    record["earlier"] = [record["digest"]]
    write_json(path / "station.json", {**record, "digest": record_digest(record)})
    station = Station.open(path)
    with pytest.raises(WeightsError, match=r"were expected in the file .*gone.safetensors, got none there"):
        station.lot("L1").score(pictures(demo().lot_good[:1]))


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


def test_hosts_that_cannot_make_a_station_are_refused(tmp_path):
    images = pictures(demo().train[:3])
    with pytest.raises(DataError, match="There is no host 'patchcor'; choose from patchcore"):
        Station.fit(images, "patchcor", path=tmp_path / "s")
    with pytest.raises(DataError, match="The host musc scores a lot against itself and has no reference to keep"):
        Station.fit(images, "musc", path=tmp_path / "s", encoder=TinyEncoder())


def test_too_few_images_are_refused(tmp_path, station):
    with pytest.raises(DataError, match="A station needs at least 2 usable images of good parts, got 1"):
        Station.fit(pictures(demo().train[:1]), path=tmp_path / "s", encoder=TinyEncoder())
    with pytest.raises(DataError, match="A lot needs at least 2 calibration images, got 1: show it 2 to 32 good parts"):
        station.calibrate(pictures(demo().lot_good[:1]), "x")


def test_unknown_corrections_and_rates_are_refused(station):
    with pytest.raises(DataError, match="There is no correction 'sparx'; choose from auto, identity, sparc"):
        station.calibrate(pictures(demo().lot_good[:3]), "x", correction="sparx")
    with pytest.raises(DataError, match="The false-reject rate must be above 0 and below 1, got 5"):
        station.calibrate(pictures(demo().lot_good[:3]), "x", false_reject=5)


def test_images_of_another_size_or_colour_are_not_judged(station):
    part = demo("lights").lot_good[9].image
    grey = np.repeat(part.mean(axis=2, keepdims=True).astype(np.uint8), 3, axis=2)
    judged = station.lot("L1").score([part, part[:48], grey, part])
    assert [one.verdict for one in judged] == [judged[0].verdict, "error", "error", judged[0].verdict]
    assert judged[1].reason == (
        f"image-1 must have {SIZE} x {SIZE} colour pixels like the images of the calibration, got 48 x {SIZE} colour "
        "pixels: check that it is from the same camera."
    )
    assert f"got {SIZE} x {SIZE} grey pixels" in judged[2].reason
    assert judged[1].heat() is None
    with pytest.raises(DataError, match=r"image-2 must have .* colour pixels"):
        station.calibrate([part, demo("lights").lot_good[8].image, grey], "grey")


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


def test_too_little_memory_is_said_before_it_runs_out(station, monkeypatch):
    monkeypatch.setattr("sparcal.memory.available_bytes", lambda: 1000)
    with pytest.raises(
        DataError, match=r"A station of 24 images needs about \d+ kB of memory, got \S+ \w+ free: fit on"
    ):
        station.calibrate(pictures(demo().lot_good[:3]), "x")


def test_how_much_room_a_fit_needs_is_said_at_its_first_image(tmp_path, monkeypatch):
    encoder = TinyEncoder()
    monkeypatch.setattr("sparcal.files.full_disk.shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000}))
    with pytest.raises(FullDiskError) as refused:
        Station.fit(pictures(demo().train), path=tmp_path / "s", encoder=encoder)
    sentence = (
        "Keeping the features of 24 images and a reference of 24 needs about 45 kB at .*, got 1.0 kB free: make room, or "
        "choose a folder"
    )
    assert re.match(sentence, str(refused.value))  # 8 x 8 cells of 12 channels in half precision, and a tenth in single
    assert encoder.calls <= 3  # a thread runs two images ahead
    assert not list((tmp_path / "s" / "features").glob("*"))


def test_how_much_memory_a_fit_needs_is_said_at_its_first_image(tmp_path, monkeypatch):
    encoder = TinyEncoder()
    monkeypatch.setattr("sparcal.memory.available_bytes", lambda: 1000)
    with pytest.raises(DataError, match="A station of 24 images needs about 221 kB of memory, got 1.0 kB free: fit on"):
        Station.fit(pictures(demo().train), path=tmp_path / "s", encoder=encoder)
    assert encoder.calls <= 3  # a thread runs two images ahead


def test_how_much_room_a_lot_needs_is_said_before_its_images_are_read(station, monkeypatch):
    monkeypatch.setattr("sparcal.files.full_disk.shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000}))
    before = station.encoder.calls
    with pytest.raises(FullDiskError, match=r"A lot needs about \d+ kB at .*, got 1.0 kB free: make room, or move"):
        station.calibrate(pictures(demo().lot_good[:3]), "x")
    assert station.encoder.calls == before


def test_a_station_that_another_process_has_grown_says_so(tmp_path):
    parts = pictures(demo().train[:6])
    station = Station.fit(parts[:4], "padim", path=tmp_path / "s", encoder=TinyEncoder())
    Station.open(tmp_path / "s", encoder=TinyEncoder()).add(parts[4:])
    with pytest.raises(ArtifactError, match="has changed since it was opened: open it again"):
        station.calibrate(parts[:2], "x", correction="identity")


def test_features_beyond_half_precision_are_kept_whole(tmp_path):
    class Loud(TinyEncoder):
        def __call__(self, pixels):
            return super().__call__(pixels).map(lambda x: x * 1e5)

    station = Station.fit(pictures(demo().train[:4]), path=tmp_path / "s", encoder=Loud())
    stored = training_features(station)
    seen = [one.features for one in encode_each(Loud(), pictures(demo().train[:4]))]
    assert torch.equal(stored.levels[0], Features.cat(seen).levels[0])


def test_the_record_is_plain_json(station):
    text = (station.path / "station.json").read_text(encoding="utf-8")
    assert json.loads(text)["kind"] == "station"


@pytest.mark.slow
def test_half_precision_moves_scores_by_less_than_a_thousandth(tmp_path):
    """On the bundled encoder, the claim of docs/reference/station.md."""
    encoder, detector = load_host("patchcore", encoder="bundled?size=128")
    train, parts = pictures(demo().train), pictures([*demo("lights").lot_good, *demo("lights").lot_bad])
    station = Station.fit(train, path=tmp_path / "s", encoder=encoder)
    whole = Features.cat([one.features for one in encode_each(encoder, train)])
    tested = Features.cat([one.features for one in encode_each(encoder, parts)])
    expected = detector.fit(whole).score(tested)
    got = values(station.own().score(parts))
    np.testing.assert_allclose(got, expected.image.numpy(), rtol=1e-3)
