"""What the feature cache saves: the second correction of a host on a category against the first.

200 units on two processes, one thread each: two hosts on the bundled encoder, four categories of rendered parts, five
draws, five corrections. The first correction of a host on a category pays for the features and for the base; the others
find both. CPU seconds are those that each unit notes in its row. The outputs of some units are compared with the same
units run on an empty cache.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sparcal.bench.run.folder import open_results
from speed.measure import Cost, Goal, Row, environment

HOSTS = ("patchcore", "padim")
CORRECTIONS = ("sparc", "mean-only", "global-subspace", "sparc-mean", "sparc-recentred")
PHASES = ("extract", "base", "correct", "measure")
NUMBERS = ("base_image_auroc", "base_aupro_0.3", "corrected_image_auroc", "corrected_aupro_0.3")


def experiment(corrections: Sequence[str], parts: int) -> str:
    """An experiment file; `parts` of each kind are rendered for each category."""
    quoted = [", ".join(f'"{name}"' for name in names) for names in (HOSTS, corrections)]
    return f"""
name = "cache"
title = "What the cache saves"
[[units]]
datasets = ["rendered"]
hosts = [{quoted[0]}]
corrections = [{quoted[1]}]
[rendered]
train = {parts}
good = {parts}
bad = {parts}
size = 128
[encoders]
"*" = "bundled"
[settings.patchcore]
coreset = 0.02
"""


def run(folder: Path, name: str, corrections: Sequence[str], *, parts: int, seeds: int) -> list[dict[str, Any]]:
    """The rows of a run that begins with an empty cache."""
    (folder / f"{name}.toml").write_text(experiment(corrections, parts), encoding="utf-8")
    program = "from sparcal.cli import main; main()"
    words = [f"{name}.toml", "--out", name, "--cache", f"cache-{name}", "--workers", "2", "--threads", "1"]
    command = [sys.executable, "-W", "ignore", "-c", program, "bench", "run", *words, "--limit-seeds", str(seeds)]
    subprocess.run(command, cwd=folder, env=environment(1), check=True, capture_output=True, timeout=1800)
    return open_results(folder / name).rows()


def rows(*, quick: bool = False) -> list[Row]:
    """The rows of the speed table."""
    parts, seeds = (12, 1) if quick else (24, 5)
    with tempfile.TemporaryDirectory() as name:
        shared = run(Path(name), "shared", CORRECTIONS, parts=parts, seeds=seeds)
        alone = run(Path(name), "alone", CORRECTIONS[:1], parts=parts, seeds=1)
    draws: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for row in shared:
        draws.setdefault((row["category"], row["host"], row["seed"]), []).append(row)
    # A process that has run out of work may help with a category that another extracts: no clean pair.
    pairs = [
        (first, second)
        for first, *others in (sorted(rows, key=lambda row: -row["extracted"]) for rows in draws.values())
        for second in others
        if first["extracted"] and not any(row["extracted"] for row in others)
    ]
    first, second = (statistics.median(pair[side]["cpu_s"] for pair in pairs) for side in (0, 1))
    walls = [statistics.median(sum(pair[side][f"{x}_s"] for x in PHASES) for pair in pairs) for side in (0, 1)]
    ratio = statistics.median(pair[0]["cpu_s"] / pair[1]["cpu_s"] for pair in pairs)
    found = {row["unit"]: row for row in shared}
    agree = all(row[name] == found[row["unit"]][name] for row in alone for name in NUMBERS)
    total = sum(row["cpu_s"] for row in shared)
    return [
        Row(
            path="second correction of a host, features and base from the cache",
            peer="first correction",
            ours=Cost(second, walls[1]),
            theirs=Cost(first, walls[0]),
            measured=ratio,
            goal=Goal(5, "less CPU"),
            agree=agree,
            agreement=f"{len(alone)} units on an empty cache give the same numbers",
            note=f"Median of {len(pairs)} pairs. {len(shared)} units took {total:.0f} CPU s; without the cache about {len(shared) * first:.0f}.",
        )
    ]
