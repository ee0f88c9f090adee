"""Workers of the local engine that go wrong; light, because every process imports this file anew."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path


def serve_badly(pipe, workplace_json):
    """Die over seed 1 always, over seed 2 the first time; say that all else went well."""
    marker = Path(json.loads(workplace_json)["cache"])
    while True:
        try:
            asked = json.loads(pipe.recv_bytes())
        except EOFError:
            return
        if asked["seed"] == 1:
            os._exit(7)
        if asked["seed"] == 2 and not marker.exists():
            marker.write_text("once")
            os._exit(8)
        pipe.send_bytes(b"It failed." if asked["seed"] == 3 else b"")


def wait_forever(pipe, workplace_json):
    """Leave one's number and never answer."""
    pipe.recv_bytes()
    Path(json.loads(workplace_json)["cache"]).write_text(str(os.getpid()))
    time.sleep(600)


def write_forever(pipe, workplace_json):
    """Serve as a good worker does, but never get to the end of writing a row."""
    from sparcal.bench.run import local_runner  # heavy, and the others need none of it
    from sparcal.files.atomic import atomic_path

    def work_off(_unit, _evaluator, workplace):
        with atomic_path(Path(workplace.results) / "units" / "half.parquet"):
            Path(workplace.cache).write_text(str(os.getpid()))
            time.sleep(600)

    local_runner.work_off, local_runner.Evaluator = work_off, lambda _workplace: None
    local_runner._serve(pipe, workplace_json)
