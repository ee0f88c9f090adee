"""The connection to a cluster: whose it is, how large it starts, and what is said where there is none."""

from __future__ import annotations

import sys
import types

import pytest

from sparcal.errors import DataError, MissingExtraError
from sparcal.ray_cluster import connected, load_ray


class FakeRay(types.ModuleType):
    """Knows whether it runs, and what it was started with."""

    def __init__(self, *, running=False):
        super().__init__("ray")
        self.running, self.options = running, {}

    def is_initialized(self):
        return self.running

    def init(self, **options):
        if options.get("address") == "nowhere":
            raise ConnectionError("no cluster\nat all")
        self.running, self.options = True, options

    def shutdown(self):
        self.running = False


def test_a_cluster_started_here_has_the_size_asked_for_and_ends() -> None:
    ray = FakeRay()
    with connected(ray, cpus=3):
        assert ray.running
    assert (ray.options["num_cpus"], ray.running) == (3, False)


def test_it_ends_when_the_work_fails() -> None:
    ray = FakeRay()
    with pytest.raises(KeyError), connected(ray):
        raise KeyError("work")
    assert not ray.running


def test_a_running_cluster_keeps_its_own_size() -> None:
    ray = FakeRay()
    with connected(ray, address="auto", cpus=3):
        assert ray.options["address"] == "auto"
    assert "num_cpus" not in ray.options


def test_the_environment_may_name_the_cluster(monkeypatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    ray = FakeRay()
    with connected(ray, cpus=3):
        assert ray.options["address"] == "auto"
    assert "num_cpus" not in ray.options


def test_a_connection_that_was_there_before_stays() -> None:
    ray = FakeRay(running=True)
    with connected(ray, cpus=3):
        pass
    assert (ray.running, ray.options) == (True, {})


def test_an_unreachable_cluster_is_one_sentence() -> None:
    with (
        pytest.raises(
            DataError, match="--engine ray needs the cluster nowhere that can be reached, got: no cluster at all"
        ),
        connected(FakeRay(), address="nowhere"),
    ):
        pass


def test_the_missing_package_is_named(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"run pip install 'sparcal\[ray\]'"):
        load_ray()
