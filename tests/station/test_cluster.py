"""Judging on a cluster: the paths, order and words of the local engine, also when workers die; a stand-in for Ray runs here."""

from __future__ import annotations

import sys
import types
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from sparcal.errors import ArtifactError, DataError, MissingExtraError, WeightsError
from sparcal.station import cluster
from sparcal.station.cluster import BLOCK, _open_lot, _place, stream_on_ray
from sparcal.station.station import Station
from tests.support.tiny_station import TinyEncoder, demo, pictures


class FakeRay(types.ModuleType):
    """Runs a task when its answer is asked for; processes die over some images."""

    def __init__(self, lot, deadly=(), failing=None):
        super().__init__("ray")
        died, task_error = (type(name, (Exception,), {}) for name in ("WorkerCrashedError", "RayTaskError"))
        self.exceptions = types.SimpleNamespace(RayError=died, RayTaskError=task_error)
        self.lot, self.deadly, self.failing = lot, deadly, failing
        self.options, self.waiting, self.most, self.running = {}, 0, 0, False

    def is_initialized(self):
        return self.running

    def init(self, **options):
        if self.failing == "init":
            raise ConnectionError("no cluster\nat all")
        self.options, self.running = options, True

    def shutdown(self):
        self.running = False

    def cluster_resources(self):
        return {"CPU": 2.0}

    def remote(self, **options):
        self.options |= options

        def submit(place, paths):
            self.waiting += 1
            self.most = max(self.most, self.waiting)
            return place, paths

        return lambda _task: types.SimpleNamespace(remote=submit)

    def get(self, pending):
        self.waiting -= 1
        place, paths = pending
        assert place.thresholds == self.lot.thresholds
        assert all(path.is_absolute() for path in paths), "a worker's own folder is another one"
        if any(path.name in self.deadly for path in paths):
            raise self.exceptions.RayError("out of memory")
        if self.failing == "task":
            error = self.exceptions.RayTaskError("a traceback\nof many lines")
            error.cause = WeightsError("One sentence.")
            raise error
        return list(self.lot.stream(paths))


@pytest.fixture(scope="module")
def lot(tmp_path_factory):
    """The own reference of a station whose encoder has a name."""
    path = tmp_path_factory.mktemp("cluster") / "station"
    station = Station.fit(pictures(demo().train), path=path, encoder=TinyEncoder())
    return replace(station, record=replace(station.record, encoder="bundled")).own()


@pytest.fixture
def paths(tmp_path, monkeypatch):
    """Relative paths of more images than a task takes, one of them broken."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    for number in range(2 * BLOCK + 3):
        Image.fromarray(demo("moved").lot_good[number % 24].image).save(tmp_path / "in" / f"{number:02}.png")
    (tmp_path / "in" / "04.png").write_bytes(b"no image")
    return [Path("in") / f"{number:02}.png" for number in range(2 * BLOCK + 3)]


def facts(judged):
    return [(one.path, one.sha256, one.score, one.threshold, one.verdict, one.reason) for one in judged]


def judge(monkeypatch, lot, paths, **settings):
    fake = FakeRay(lot, **settings)
    monkeypatch.setitem(sys.modules, "ray", fake)
    return fake, list(stream_on_ray(lot, paths))


def test_judgements_are_those_of_the_local_engine(monkeypatch, lot, paths):
    fake, judged = judge(monkeypatch, lot, paths)
    assert facts(judged) == facts(lot.stream(paths))
    assert judged[4].reason.startswith("in/04.png must be")
    assert (fake.options["max_retries"], fake.running) == (2, False)


def test_memory_does_not_grow_with_the_images(monkeypatch, lot, paths):
    fake, judged = judge(monkeypatch, lot, paths * 8)
    assert len(judged) == 8 * len(paths)
    assert fake.most <= 2 * 2 + 1


def test_one_deadly_image_takes_no_other_with_it(monkeypatch, lot, paths):
    _, judged = judge(monkeypatch, lot, paths, deadly=("20.png",))
    expected = facts(lot.stream(paths))
    assert facts(judged)[:20] + facts(judged)[21:] == expected[:20] + expected[21:]
    assert (judged[20].verdict, judged[20].score) == ("error", None)
    assert judged[20].reason.startswith("in/20.png must leave the worker alive, got a worker that died over it 3 times")


def test_a_refusal_of_a_worker_stays_one_sentence(monkeypatch, lot, paths):
    with pytest.raises(WeightsError, match=r"^One sentence\.$"):
        judge(monkeypatch, lot, paths, failing="task")


def test_a_cluster_that_is_not_there_is_said_in_one_sentence(monkeypatch, lot, paths):
    with pytest.raises(DataError, match="--engine ray needs a cluster that can be reached, got: no cluster at all"):
        judge(monkeypatch, lot, paths, failing="init")


def test_a_cluster_that_was_there_before_stays(monkeypatch, lot, paths):
    fake = FakeRay(lot)
    fake.running = True
    monkeypatch.setitem(sys.modules, "ray", fake)
    assert len(list(stream_on_ray(lot, paths[:1]))) == 1
    assert fake.running


def test_the_missing_package_is_named(monkeypatch, lot, paths):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"run pip install 'sparcal\[ray\]'"):
        list(stream_on_ray(lot, paths))


def test_an_encoder_without_a_name_cannot_travel(lot):
    unnamed = replace(lot.station, record=replace(lot.station.record, encoder="")).own()
    with pytest.raises(DataError, match="A cluster needs a station whose encoder has a name"):
        _place(unnamed)


@pytest.mark.parametrize(("given", "travels"), [(None, None), ("w.pt", "{}/w.pt"), ("random:3", "random:3")])
def test_weights_reach_the_workers(monkeypatch, tmp_path, lot, given, travels):
    monkeypatch.chdir(tmp_path)
    place = _place(replace(lot.station, weights=given and (given if ":" in given else Path(given))).own())
    assert place.weights == (travels and travels.format(tmp_path))
    asked = {}

    def opened(path, **settings):
        asked.update(path=path, **settings)
        return lot.station

    monkeypatch.setattr("sparcal.station.station.Station.open", opened)
    _open_lot.cache_clear()
    thresholds = (lot.thresholds[1], lot.thresholds[0])
    assert _open_lot(replace(place, thresholds=thresholds)).thresholds == thresholds
    assert asked == {"path": str(lot.station.path), "weights": place.weights, "device": "cpu"}


def test_another_station_at_the_same_path_is_refused(monkeypatch, lot):
    monkeypatch.setattr("sparcal.station.station.Station.open", lambda *_args, **_settings: lot.station)
    cluster._open_lot.cache_clear()
    with pytest.raises(ArtifactError, match="Every node must see the same station at"):
        _open_lot(replace(_place(lot), digest="another"))
