"""Two nodes judge a lot, one of them is killed: every image is judged once, as the local engine does it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.support.tiny_line import fill, fit

# Starts a cluster of two nodes, judges on it, and pulls the plug of one node once the first verdicts are there.
CLUSTER = """
import json, os, subprocess, sys, time
from pathlib import Path
from ray.cluster_utils import Cluster

journal, images = Path(sys.argv[1]), int(sys.argv[2])
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
second = cluster.add_node(num_cpus=1)
cluster.wait_for_nodes()
try:
    judging = subprocess.Popen(
        [sys.executable, "-m", "sparcal", *sys.argv[3:]], env={**os.environ, "RAY_ADDRESS": cluster.address}
    )
    while judging.poll() is None and not (journal.exists() and journal.stat().st_size):
        time.sleep(0.05)
    judged = journal.read_text().count("\\n")
    cluster.remove_node(second, allow_graceful=False)
    code = judging.wait(900)
    print(json.dumps({"code": code, "judged before the kill": judged}), file=sys.stderr)
finally:
    cluster.shutdown()
"""


@pytest.mark.slow
def test_a_node_is_killed_and_every_image_is_judged_once(tmp_path, record_property):
    root = fill(tmp_path)
    assert fit(root) == 0
    sources = sorted((root / "lot").iterdir())
    for number in range(200):
        shutil.copy(sources[number % len(sources)], root / "lot" / f"copy-{number:03}.png")
    total = 200 + len(sources)
    words = ["score", "station", "lot", "--maps", "none", "--no-overlays"]  # relative, as people call it
    environment = {**os.environ, "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    local = subprocess.run(
        [sys.executable, "-m", "sparcal", *words, "--out", "local", "--json"],
        cwd=root, env=environment, capture_output=True, text=True, check=True, timeout=900,
    )  # fmt: skip
    command = [*words, "--out", "remote", "--engine", "ray", "--json"]
    remote = subprocess.run(
        [sys.executable, "-c", CLUSTER, str(root / "remote" / "scores.jsonl"), str(total), *command],
        cwd=root, env=environment, capture_output=True, text=True, check=False, timeout=1800,
    )  # fmt: skip
    assert remote.returncode == 0, remote.stderr
    told = json.loads(remote.stderr.strip().splitlines()[-1])
    assert told["code"] == 0
    assert told["judged before the kill"] < total, "the node died while there was work"
    record_property("ended", f"{total} images, {told['judged before the kill']} judged before the kill")
    answer = next(line for line in remote.stdout.splitlines() if line.startswith("["))
    assert json.loads(answer) == json.loads(local.stdout)
    lines = (root / "remote" / "scores.jsonl").read_text().splitlines()
    paths = [json.loads(line)["path"] for line in lines]
    assert len(paths) == len(set(paths)) == total
