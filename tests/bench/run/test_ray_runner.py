"""The Ray engine: its bookkeeping with a stand-in for Ray, and the real one on a cluster of two nodes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from sparcal.bench.plan.unit import Unit
from sparcal.bench.run.folder import open_results, start_results
from sparcal.bench.run.ray_runner import run_ray
from sparcal.bench.run.work import Failed
from sparcal.bench.run.workplace import Workplace
from sparcal.errors import DataError, MissingExtraError
from tests.support.tiny_bench import RESNET, write_trees

UNITS = [Unit("rad", "bolt", "padim", "sparc", 8, seed) for seed in range(7)]


class FakeRay(types.ModuleType):
    """Runs a task when its answer is asked for, and dies over some units."""

    def __init__(self, *, deadly=(), gpus=0.0):
        super().__init__("ray")
        self.exceptions = types.SimpleNamespace(RayError=type("RayError", (Exception,), {}))
        self.deadly, self.gpus = deadly, gpus
        self.options, self.waiting, self.most = {}, {}, 0

    def init(self, **options):
        if options.get("address") == "nowhere":
            raise ConnectionError("no cluster\nat all")
        self.options |= options

    def is_initialized(self):
        return False

    def shutdown(self):
        self.options["ended"] = True

    def cluster_resources(self):
        return {"CPU": 2.0, "GPU": self.gpus}

    def remote(self, **options):
        self.options |= options

        def wrap(_task):
            def submit(unit_json, _place):
                name = f"task-{json.loads(unit_json)['seed']}"
                self.waiting[name] = json.loads(unit_json)["seed"]
                self.most = max(self.most, len(self.waiting))
                return name

            return types.SimpleNamespace(remote=submit)

        return wrap

    def wait(self, tasks, **_):
        return [tasks[-1]], tasks[:-1]

    def get(self, task):
        seed = self.waiting.pop(task)
        if seed in self.deadly:
            raise self.exceptions.RayError("out of memory")
        return "It failed." if seed == 3 else ""


@pytest.fixture
def workplace(tmp_path):
    start_results(tmp_path / "r", 'name = "x"\ntitle = "t"\n', UNITS)
    return Workplace({}, str(tmp_path / "r"), str(tmp_path / "c"), threads=1)


def test_every_unit_is_one_task_and_failures_come_back(monkeypatch, workplace):
    fake = FakeRay(deadly=(5,))
    monkeypatch.setitem(sys.modules, "ray", fake)
    seen = []
    failed = run_ray(UNITS, workplace, workers=2, progress=lambda *numbers: seen.append(numbers))
    assert sorted((one.unit.seed, one.reason) for one in failed) == [
        (3, "It failed."),
        (5, "The task died on the cluster, 3 times (RayError)."),
    ]
    assert all(isinstance(one, Failed) for one in failed)
    assert seen[-1] == (7, 7, 2)
    assert [done for done, _, _ in seen] == list(range(1, 8))
    assert fake.most <= 4, "no more than two tasks wait for each place"
    assert fake.options["max_retries"] == 2
    assert (fake.options["num_cpus"], fake.options["num_gpus"], fake.options["ended"]) == (1, 0.0, True)
    assert UNITS[5].hash in open_results(Path(workplace.results)).failures()


def test_gpus_are_reserved_and_must_be_there(monkeypatch, workplace):
    fake = FakeRay(gpus=1.0)
    monkeypatch.setitem(sys.modules, "ray", fake)
    run_ray(UNITS[:1], workplace, workers=1, gpus=0.5)
    assert fake.options["num_gpus"] == 0.5
    monkeypatch.setitem(sys.modules, "ray", FakeRay(gpus=0.0))
    with pytest.raises(DataError, match="Each task asks for 0.5 GPU, and the cluster has 0: lower --num-gpus"):
        run_ray(UNITS[:1], workplace, workers=1, gpus=0.5)


def test_a_cluster_that_is_not_there_is_said_in_one_sentence(monkeypatch, workplace):
    monkeypatch.setitem(sys.modules, "ray", FakeRay())
    with pytest.raises(
        DataError, match="--engine ray needs the cluster nowhere that can be reached, got: no cluster at all"
    ):
        run_ray(UNITS, workplace, workers=1, address="nowhere")


def test_the_missing_package_is_named(monkeypatch, workplace):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match="run pip install 'sparcal\\[ray\\]'"):
        run_ray(UNITS, workplace, workers=1)


CLUSTER = """
import os, subprocess, sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
cluster.add_node(num_cpus=1)
cluster.wait_for_nodes()
try:
    command = [sys.executable, "-c", "from sparcal.cli import main; main()", *sys.argv[1:]]
    sys.exit(subprocess.run([*command, "--engine", "ray", "--address", cluster.address]).returncode)
finally:
    cluster.shutdown()
"""


def bench(*words, cluster=False, **environment):
    program = CLUSTER if cluster else "from sparcal.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, "bench", *map(str, words)],
        env={**os.environ, "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", **environment},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )


def tables(folder):
    return {path.name: path.read_bytes() for path in sorted((folder / "report" / "tables").iterdir())}


def compare(tmp_path, experiment, *options, **environment):
    """Run an experiment on both engines, each with a cache of its own; the tables of both."""
    made = []
    for engine in ("local", "ray"):
        out = tmp_path / engine
        words = ("run", experiment, "--out", out, "--cache", tmp_path / f"cache-{engine}", "--threads", 1, *options)
        ran = bench(*words, cluster=engine == "ray", **environment)
        assert ran.returncode == 0, ran.stderr
        assert bench("report", out).returncode == 0
        made.append(tables(out))
    return made


@pytest.mark.slow
def test_two_nodes_give_the_same_numbers_on_the_trees(tmp_path):
    data = write_trees(tmp_path / "data")
    options = (
        "--workers",
        2,
        "--limit-categories",
        1,
        "--limit-seeds",
        2,
        "--encoder",
        RESNET,
        "--weights",
        "random:0",
    )
    local, ray = compare(tmp_path, "symmetric-use", *options, SPARCAL_DATA=str(data))
    assert local == ray
    assert b"missing" not in local["symmetric-use.csv"]


@pytest.mark.slow
def test_two_nodes_give_the_same_numbers_in_the_demonstration(tmp_path):
    local, ray = compare(tmp_path, "demo", "--workers", 2, "--limit-seeds", 1)
    assert local == ray
    assert b"missing" not in local["demo.csv"]
