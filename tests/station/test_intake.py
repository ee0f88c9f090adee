"""What a station is fitted on: every image is used, or left out with a sentence, and never too many in silence."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from sparcal.errors import DataError
from sparcal.station.intake import LEFT_OUT_LIMIT, Intake
from sparcal.station.station import Station
from tests.support.tiny_station import TinyEncoder, demo, pictures


def folder_of(parts, folder):
    folder.mkdir()
    for number, image in enumerate(parts):
        Image.fromarray(image).save(folder / f"{number:02d}.png")
    return folder


@pytest.fixture
def mixed(tmp_path):
    """Twenty parts, and what a folder collects over the years."""
    folder = folder_of(pictures(demo().train[:20]), tmp_path / "images")
    part = Image.fromarray(demo().train[0].image)
    part.resize((48, 48)).save(folder / "small.png")
    part.convert("L").save(folder / "grey.png")
    Image.new("RGB", (1, 1)).save(folder / "dot.png")
    (folder / "text.png").write_text("no image")
    (folder / "again.png").write_bytes((folder / "00.png").read_bytes())
    return folder


def test_odd_sizes_colours_duplicates_and_unreadable_files_are_left_out_and_named(mixed, tmp_path):
    with pytest.raises(DataError) as caught:
        Station.fit(mixed, path=tmp_path / "s", encoder=TinyEncoder())
    assert "at most 5% of the images are left out, got 5 of 25: take them away, or insist" in str(caught.value)
    station = Station.fit(mixed, path=tmp_path / "s", encoder=TinyEncoder(), insist=True)
    reasons = {name.rsplit("/", 1)[-1]: reason for name, reason in station.record.left_out}
    assert set(reasons) == {"small.png", "grey.png", "dot.png", "text.png", "again.png"}
    assert "must have 64 x 64 colour pixels like 20 of 23 images, got 48 x 48 colour pixels" in reasons["small.png"]
    assert "got 64 x 64 grey pixels: check that it is from the same camera" in reasons["grey.png"]
    assert "got 1 x 1 grey pixels" in reasons["dot.png"]
    assert station.record.kinds == ((64, 64, False),)
    assert len(station.record.images) == 20


def test_images_that_were_encoded_before_a_refusal_are_not_encoded_again(mixed, tmp_path):
    with pytest.raises(DataError, match="insist"):
        Station.fit(mixed, path=tmp_path / "s", encoder=TinyEncoder())
    encoder = TinyEncoder()
    Station.fit(mixed, path=tmp_path / "s", encoder=encoder, insist=True)
    assert encoder.calls < 3 + 96  # planted defects of the self-test, and the few that are never kept


def test_parts_of_many_sizes_are_all_taken(tmp_path):
    parts = [part.image[: 40 + i, : 40 + i] for i, part in enumerate(demo().train[:8])]
    station = Station.fit(folder_of(parts, tmp_path / "i"), path=tmp_path / "s", encoder=TinyEncoder())
    assert len(station.record.images) == 8


def test_what_the_station_has_already_is_no_reason_to_refuse(tmp_path):
    images = pictures(demo().train[:6])
    station = Station.fit(images, path=tmp_path / "s", encoder=TinyEncoder())
    grown = station.add([*images, demo().lot_good[0].image])
    assert len(grown.record.images) == 7
    assert len(grown.record.left_out) == 6
    with pytest.raises(DataError, match="got 1 of 2"):
        grown.add([demo().lot_good[1].image, b"no image"])


@pytest.mark.parametrize(("left_out", "refused"), [(0, False), (5, False), (6, True)])
def test_a_few_percent_may_be_left_out(left_out, refused):
    images = tuple((f"{i}", f"{i}") for i in range(100 - left_out))
    intake = Intake(images, tuple((f"b{i}", f"b{i} is bad.") for i in range(left_out)), {})
    assert LEFT_OUT_LIMIT == 0.05
    if not refused:
        intake.require_enough(100, insist=False)
        return
    with pytest.raises(DataError) as caught:
        intake.require_enough(100, insist=False)
    assert "b0 is bad. b1 is bad. b2 is bad. b3 is bad. b4 is bad. And 1 more." in str(caught.value)
    intake.require_enough(100, insist=True)
    with pytest.raises(DataError, match="insist must be True or False, got 1"):
        intake.require_enough(100, insist=1)


def test_a_part_unlike_the_others_is_pointed_out(tmp_path):
    good = pictures(demo().train[:20])
    spoilt = good[7].copy()
    spoilt[20:36, 20:36] = np.array([255, 0, 0], dtype=np.uint8)
    images = [png(image) for image in [*good[:7], spoilt, *good[8:]]]
    station = Station.fit(images, path=tmp_path / "s", encoder=TinyEncoder())
    check = next(one for one in station.record.checks if one.name == "unlike the others")
    assert (check.verdict, check.images) == ("look", ("image-7",))
    assert "image-7 does not look like the others" in check.sentence
    assert station.own().record.checks == station.record.checks
    plain = Station.fit(good, path=tmp_path / "t", encoder=TinyEncoder())
    assert [one.verdict for one in plain.record.checks] == ["ok", "ok"]


def test_the_same_part_twice_is_pointed_out(tmp_path):
    parts = pictures(demo().train[:8])
    noisy = np.clip(parts[2].astype(int) + np.random.default_rng(0).integers(-1, 2, parts[2].shape), 0, 255)
    station = Station.fit([*parts, noisy.astype(np.uint8)], path=tmp_path / "s", encoder=TinyEncoder())
    check = next(one for one in station.record.checks if one.name == "twins")
    assert (check.verdict, check.images) == ("look", ("image-8", "image-2"))
    assert "image-2 and image-8" in check.sentence


def png(image):
    stream = io.BytesIO()
    Image.fromarray(image).save(stream, "PNG")
    return stream.getvalue()
