"""The worker notices: another lamp raises one alarm, a new worker knows what the last one knew, a new lot is watched anew."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from sparcal.rendering.parts import TRAINING_LIGHT, part_seeds, render_part
from sparcal.server.data import alarms, retention, scores
from sparcal.server.data.database import Database
from sparcal.server.data.jobs import Job
from sparcal.server.data.store import Store, Stored
from sparcal.server.settings import Limits
from sparcal.server.work.handlers import Tasks
from tests.server.work.test_judging import Silent
from tests.support.served import SIZE, build_station, png

SCORE = Job(1, "score", {"lot": ""}, 1)


@pytest.fixture(scope="module")
def station(tmp_path_factory):
    folder = tmp_path_factory.mktemp("noticing") / "line-3"
    build_station(folder, train=16, good=1, bad=1)
    return folder


@pytest.fixture(scope="module")
def images():
    """Good parts as they should be, and the same darker."""
    good = [render_part(seed, light=TRAINING_LIGHT, size=SIZE).image for seed in part_seeds(3, 40, 30)]
    return good[:10], [np.round(image * 0.8).astype(np.uint8) for image in good[10:]]


@pytest.fixture
def store(database):
    return Store(database.path.parent, Limits())


def arrive(database, store, images, lot=""):
    for image in images:
        content = png(image)
        path = store.folder / "upload"
        path.write_bytes(content)
        stored = Stored(hashlib.sha256(content).hexdigest(), f"{len(content)}.png", len(content), "png", path)
        with retention.arrival(database, store, stored) as connection:
            retention.admit(connection, store, stored)
            scores.arrive(connection, stored.sha, lot)


def all_alarms(database):
    with database.read() as connection:
        return alarms.latest_alarms(connection, limit=10)


def test_another_lamp_raises_one_alarm_also_across_a_restart(station, database, store, images):
    before, after = images
    arrive(database, store, before)
    Tasks(database, store, station, None).run(SCORE, Silent())
    assert all_alarms(database) == []
    arrive(database, store, after[:6])
    first = Tasks(database, store, station, None)  # a new worker, which has to remember
    first.run(SCORE, Silent())
    seen = first.noticing._monitor.test.evidence
    arrive(database, store, after[6:])
    second = Tasks(Database(database.path), store, station, None)
    second.run(SCORE, Silent())
    assert second.noticing._monitor.seen == 30
    assert seen > 1
    (alarm,) = all_alarms(database)
    assert alarm["what"].startswith("the whole image is darker (-")
    assert alarm["lot"] == ""
    with database.read() as connection:
        numbers = [row["id"] for row in connection.execute("SELECT id FROM scores ORDER BY id")]
    assert numbers.index(alarm["first"]) in (10, 11)
    assert numbers.index(alarm["last"]) < 30


def test_what_was_dismissed_is_known_to_the_next_worker(station, database, store, images):
    before, after = images
    arrive(database, store, [*before, *after])
    tasks = Tasks(database, store, station, None)
    tasks.run(SCORE, Silent())
    (alarm,) = all_alarms(database)
    with database.write() as connection:
        alarms.dismiss_alarm(connection, alarm["id"], operator="A. Roth", reason="a new lamp")
    arrive(database, store, [image[::-1] for image in after[:1]])
    tasks.run(SCORE, Silent())
    monitor = tasks.noticing._monitor
    assert (monitor.seen, monitor.shift) == (1, None)
    assert len(monitor.test._order) == 21, "the dismissed parts are what is normal now"


def test_a_part_that_is_judged_again_is_no_news(station, database, store, images):
    arrive(database, store, images[0][:3])
    tasks = Tasks(database, store, station, None)
    tasks.run(SCORE, Silent())
    arrive(database, store, images[0][:3])
    tasks.run(SCORE, Silent())
    assert tasks.noticing._monitor.seen == 3


def test_a_verdict_that_could_not_be_written_is_not_remembered(station, database, store, images, monkeypatch):
    arrive(database, store, images[0][:4])
    tasks = Tasks(database, store, station, None)
    calls = []

    def full(*args, **kwargs):
        calls.append(args)
        if len(calls) == 3:
            raise OSError("disk full")
        return keep(*args, **kwargs)

    keep = alarms.keep_reading
    monkeypatch.setattr(alarms, "keep_reading", full)
    with pytest.raises(OSError, match="disk full"):
        tasks.run(SCORE, Silent())
    tasks.run(SCORE, Silent())
    assert tasks.noticing._monitor.seen == 4
    with database.read() as connection:
        assert connection.execute("SELECT count(*) AS n FROM readings").fetchone()["n"] == 4


def test_a_reference_that_does_not_judge_now_is_not_watched(station, database, store, images):
    tasks = Tasks(database, store, station, None)
    lot = tasks.loaded.station.calibrate(images[0][:3], "L9", correction="mean-only", activate=False)
    assert tasks.noticing.look(lot) is None
    assert tasks.noticing.look(tasks.loaded.lot("")) is not None
