"""Lots: verdicts, maps, rows, and what is kept of a calibration."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from sparcal.station.lot_record import LotRecord
from sparcal.station.station import Station
from tests.support.tiny_station import SIZE, TinyEncoder, demo, pictures


@pytest.fixture(scope="module")
def lot(tmp_path_factory):
    path = tmp_path_factory.mktemp("lot") / "station"
    station = Station.fit(pictures(demo().train), path=path, encoder=TinyEncoder())
    return station.calibrate(pictures(demo("moved").lot_good[:8]), "L", correction="sparc-recentred", false_reject=0.1)


def test_a_part_fails_above_the_threshold_and_not_at_it(lot):
    images = pictures(demo("moved").lot_good[8:12])
    score = lot.score(images[0])[0].score
    for value, verdict in ((score, "pass"), (np.nextafter(score, 0), "fail")):
        assert lot.station.set_threshold("L", value).score(images[0])[0].verdict == verdict
    lot.station.set_threshold("L")


def test_a_map_has_every_native_pixel(lot):
    judged = lot.score(pictures(demo("moved").lot_bad[:2]))
    for one in judged:
        heat = one.heat()
        assert heat.shape == (SIZE, SIZE)
        assert heat.dtype == np.float32
        assert np.isfinite(heat).all()


def test_rows_and_progress(lot, tmp_path):
    for number, part in enumerate(demo("moved").lot_good[8:11]):
        Image.fromarray(part.image).save(tmp_path / f"{number}.png")
    (tmp_path / "broken.png").write_bytes(b"no image")
    seen = []
    judged = lot.score(tmp_path, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    rows = [one.row() for one in judged]
    assert [row["path"] for row in rows] == [str(tmp_path / f"{name}.png") for name in ("0", "1", "2", "broken")]
    assert set(rows[0]) >= {"path", "score", "threshold", "verdict"}
    assert (rows[3]["verdict"], rows[3]["score"]) == ("error", None)
    assert "must be a readable PNG" in rows[3]["reason"]
    assert [one.score for one in lot.score(str(tmp_path / "[12].png"))] == [row["score"] for row in rows[1:3]]


def test_images_are_judged_as_they_come(lot):
    """Nothing runs far ahead of whoever asks for the results."""
    opened = []

    class Lazy(list):
        def __getitem__(self, index):
            opened.append(index)
            return super().__getitem__(index)

        def __iter__(self):
            for index in range(len(self)):
                yield self[index]

    stream = lot.stream(Lazy(pictures(demo("moved").lot_good)))
    next(stream)
    assert len(opened) <= 4


def test_a_record_survives_json(lot):
    record = LotRecord.from_json(lot.record.to_json())
    assert record == lot.record
    assert record.verdict in ("ok", "look", "stop")


def test_the_record_keeps_maps_of_what_was_removed(lot):
    maps = lot.maps()
    assert maps["removed"].shape == (8, 8)
    assert maps["left_out"].shape == (8, 8, 8)


def test_titles_say_what_judges(lot):
    assert lot.title == "Lot L, sparc-recentred"
    kept = lot.station.calibrate(pictures(demo().lot_good[:4]), "kept", correction="identity")
    assert kept.title == "Lot kept, the station's own reference"
