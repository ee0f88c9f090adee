"""Stations: fitted once and reopened, grown, calibrated, rolled back; what is damaged or foreign is refused."""

from __future__ import annotations

import copy
import json
import shutil

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
from sparcal.errors import ArtifactError, DataError, WeightsError
from sparcal.files.json_record import read_json, record_digest, write_json
from sparcal.hosts import load_host
from sparcal.imaging.encode import encode_each
from sparcal.imaging.maps import MapRule
from sparcal.score import reference_side
from sparcal.station.calibrating import LOT_SEED
from sparcal.station.station import Station
from sparcal.types import Features
from tests.support.tiny_station import SIZE, TinyEncoder, demo, left_overs, pictures

TESTED = PLANTED + PLANTED // 2  # images with planted defects that are encoded for a self-test


def values(judged):
    return [one.score for one in judged]


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
    station.calibrate(pictures(demo("moved").lot_good[:8]), "L2", reason="a test")
    assert station.lot().name == "L2"
    assert station.activate("L1", operator="Cy", reason="a test").name == "L1"
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
