"""Walks through an installed sparcal, away from its sources: demo, a station, the benchmark's list, server and export.

    python walk.py        with the interpreter of the environment that sparcal was installed into

Needs nothing but that environment, runs every command as a user would, and stops at the first that does not do its job.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

PYTHON = sys.executable
PARTS = "from sparcal.rendering.parts import make_demo\nfrom PIL import Image\nfrom pathlib import Path\n" + (
    "parts = make_demo(0, train=10, good=8, bad=3, shift='moved', size=128)\n"
    "groups = {'train': parts.train, 'normals': parts.lot_good[:4], 'lot': parts.lot_good[4:] + parts.lot_bad}\n"
    "for name, group in groups.items():\n"
    "    Path(name).mkdir()\n"
    "    for part in group:\n"
    "        Image.fromarray(part.image).save(Path(name, part.name + '.png'))\n"
)


def run(*words: str, ends: tuple[int, ...] = (0,)) -> str:
    """What a command prints; it must leave with one of the codes `ends`."""
    print("$", *(Path(word).name if word == PYTHON else word.replace("\n", "; ") for word in words), flush=True)
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode not in ends or "Traceback" in done.stderr:
        sys.exit(f"It left with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def sparcal(*words: str, ends: tuple[int, ...] = (0,)) -> Any:
    """What `sparcal WORDS --json` prints."""
    return json.loads(run(str(Path(PYTHON).with_name("sparcal")), *words, "--json", ends=ends))


def expect(true: bool, sentence: str) -> None:
    """Stop with the sentence where something is not so."""
    if not true:
        sys.exit(f"Expected that {sentence}.")


def walk() -> None:
    """Everything that a wheel must be able to do alone, in the current folder."""
    where = run(PYTHON, "-c", "import sparcal; print(sparcal.__file__)").strip()
    expect("site-packages" in where, f"sparcal comes from the environment, not from {where}")
    expect(len(sparcal("hosts")) >= 9, "there are nine hosts")
    expect(len(sparcal("bench", "list")) > 5, "the experiments come with the package")
    shown = sparcal("demo", "--out", "demo", "--seeds", "1", "--k", "4")
    expect(bool(shown["rows"]) and Path("demo/index.html").is_file(), "the demonstration has rows and a page")

    run(PYTHON, "-c", PARTS)
    sparcal("fit", "train", "--host", "patchcore", "--encoder", "bundled", "--station", "station")
    lot = sparcal("calibrate", "station", "normals", "--lot", "L42", "--activate")
    expect(lot["self_test"]["planted"] > 0, "the lot was tested on planted defects")
    rows = sparcal("score", "station", "lot", "--lot", "L42", "--out", "results")
    expect(len(rows) == 7 and all(row["score"] is not None for row in rows), "every part of the lot got a score")
    expect(Path("results/index.html").is_file(), "the results have a page")
    sparcal("test", "station", "--lot", "L42", ends=(0, 1))  # 1: it found fewer, which says nothing about the wheel

    sparcal("export", "station", "--lot", "L42", "--format", "onnx", "--out", "exported")
    images = [row["path"] for row in rows]
    printed = run(PYTHON, "-m", "sparcal.export.lot", "run", "exported/model.onnx", *images)
    for row, line in zip(rows, printed.splitlines(), strict=True):
        got = json.loads(line)["score"]
        near = abs(got - row["score"]) <= 1e-3 * max(1, abs(row["score"]))
        expect(near, f"the exported lot scores {row['path']} as {row['score']}, not as {got}")
    serve()


def serve() -> None:
    """Start the web station, look at its page, and end it."""
    print("$ sparcal serve station --port 0", flush=True)
    command = (str(Path(PYTHON).with_name("sparcal")), "serve", "station", "--port", "0", "--json")
    with Path("serve.log").open("w") as log, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log) as process:
        try:
            assert process.stdout is not None
            address = json.loads(process.stdout.readline() or b'{"address": null}')["address"]
            expect(address is not None, "the server says its address; serve.log: " + Path("serve.log").read_text())
            page = fetch(address)
            expect("L42" in page, "the page of the web station shows the lot")
        finally:
            process.terminate()
            process.wait(60)


def fetch(address: str, patience: float = 60) -> str:
    """The page at `address`, once it answers."""
    until = time.monotonic() + patience
    while True:
        try:
            with urllib.request.urlopen(address, timeout=10) as answer:
                return str(answer.read().decode())
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


if __name__ == "__main__":
    os.environ.pop("PYTHONPATH", None)
    with tempfile.TemporaryDirectory(prefix="sparcal-walk-") as folder:
        os.chdir(folder)
        walk()
        os.chdir("/")
    print("The installed sparcal does its job.")
