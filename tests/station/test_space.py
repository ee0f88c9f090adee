"""What a station and its lots take on disk and in memory, said with both numbers."""

from __future__ import annotations

import re

import pytest

from sparcal.detectors import PaDiM, SubspaceAD
from sparcal.errors import DataError, FullDiskError
from sparcal.station.space import require_memory_to_plant, require_space_for_lot, require_space_to_fit, values_of
from sparcal.station.station import Station
from tests.support.tiny_station import TinyEncoder, demo, pictures

GRIDS = ((10, 10, 50), (5, 5, 100))  # 7,500 values


def free(monkeypatch, disk, memory):
    monkeypatch.setattr("sparcal.files.full_disk.shutil.disk_usage", lambda _: type("Usage", (), {"free": disk}))
    monkeypatch.setattr("sparcal.memory.available_bytes", lambda: memory)


def test_values_of_one_image():
    assert values_of(GRIDS) == 7500


def test_features_take_two_bytes_on_disk_and_twelve_in_memory(tmp_path, monkeypatch):
    free(monkeypatch, 2 * 7500 * 30, 12 * 7500 * 100)
    require_space_to_fit(tmp_path, GRIDS, SubspaceAD(), new=30, images=100)
    with pytest.raises(FullDiskError, match="Keeping the features of 31 images needs about 465 kB at"):
        require_space_to_fit(tmp_path, GRIDS, SubspaceAD(), new=31, images=100)
    with pytest.raises(DataError, match="A station of 101 images needs about 9.1 MB of memory, got 9.0 MB free"):
        require_space_to_fit(tmp_path, GRIDS, SubspaceAD(), new=30, images=101)


def test_the_reference_of_all_images_counts_with_the_features_of_the_new_ones(tmp_path, monkeypatch):
    grids, images, new = ((10, 10, 50),), 20, 5
    gaussians = 8 * 100 * (50 + images * 50)  # a mean and one row per image, per cell in float64
    free(monkeypatch, 2 * 5000 * new + gaussians, None)
    require_space_to_fit(tmp_path, grids, PaDiM(), new=new, images=images)
    with pytest.raises(
        FullDiskError,
        match="Keeping the features of 6 images and a reference of 20 needs about 900 kB at .*, got 890 kB",
    ):
        require_space_to_fit(tmp_path, grids, PaDiM(), new=new + 1, images=images)


def test_planted_defects_are_held_in_memory_the_faint_ones_too(monkeypatch):
    free(monkeypatch, None, 4 * 2 * 7500 * 150)
    require_memory_to_plant(GRIDS, 100)
    with pytest.raises(
        DataError, match="Planting 102 defects needs about 9.2 MB of memory, got 9.0 MB free: plant fewer"
    ):
        require_memory_to_plant(GRIDS, 102)


def test_a_lot_takes_a_reference_like_the_stations_and_its_correction(tmp_path, monkeypatch):
    reference = tmp_path / "reference.safetensors"
    reference.write_bytes(bytes(1000))
    free(monkeypatch, 1000 + 4 * 7500 * 8, None)
    require_space_for_lot(tmp_path, GRIDS, normals=8, reference=reference)
    with pytest.raises(FullDiskError, match="A lot needs about 271 kB at .*, got 241 kB free: make room, or move"):
        require_space_for_lot(tmp_path, GRIDS, normals=9, reference=reference)


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
