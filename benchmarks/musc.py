"""MuSc against a plain cdist version: CPU and wall seconds, extra memory, and whether the scores agree.

    python benchmarks/musc.py

The first row is a lot of 60 images of 16 x 16 cells x 384 channels with 4 layers and 3 radii. The second is a lot twice
that size with `memory` far below what its distances take: it shows that extra memory follows the features, of which it
copies one layer, and not the square of the lot. Each side runs in a process of its own on the same features, one thread
each, in turn. Extra memory is the rise of the peak resident size above the features. The plain version is the authors'
way: unfold the neighbourhoods, one `torch.cdist` from each image to all others, the minimum per image.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import layer_norm, normalize, unfold

from sparcal.detectors.musc import MuSc
from sparcal.types import Features

SIDE, CHANNELS = 16, 384
INTERVAL = 0.3
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Setting:
    """One lot and how it is scored."""

    images: int
    layers: int
    radii: tuple[int, ...]
    memory: int
    goal: float

    @property
    def path(self) -> str:
        limit = "" if self.memory >= 2**30 else f", memory={self.memory // 2**20} MiB"
        many = f"{self.layers} layers, {len(self.radii)} radii" if self.layers > 1 else "1 layer, 1 radius"
        return f"MuSc, {self.images} x {SIDE} x {SIDE} x {CHANNELS}, {many}{limit}"


SPEED = Setting(images=60, layers=4, radii=(1, 3, 5), memory=2**30, goal=3.0)
BOUND = Setting(images=120, layers=1, radii=(1,), memory=2**20, goal=1.0)


def lot(images: int, layers: int) -> Features:
    """Images that share a mean at every cell, as parts of one kind do."""
    random = torch.Generator().manual_seed(0)
    shape = (SIDE, SIDE, CHANNELS)
    means = [torch.randn(shape, generator=random) for _ in range(layers)]
    return Features(tuple(torch.randn(images, *shape, generator=random).add_(mean) for mean in means))


def run_ours(features: Features, setting: Setting) -> Tensor:
    return MuSc(radii=setting.radii, interval=INTERVAL, rscin=False, memory=setting.memory).score(features).cell


def run_plain(features: Features, setting: Setting) -> Tensor:
    total = torch.zeros(len(features), SIDE * SIDE)
    for level in features.levels:
        for radius in setting.radii:
            total += plain_scores(plain_tokens(level, radius))
    return (total / (len(features.levels) * len(setting.radii))).view(-1, SIDE, SIDE)


def plain_tokens(level: Tensor, radius: int) -> Tensor:
    tokens = []
    for x in level:
        whole = layer_norm(x, x.shape).permute(2, 0, 1)[None]
        windows = unfold(whole, radius, padding=radius // 2).view(CHANNELS, radius**2, SIDE * SIDE)
        tokens.append(normalize(windows.mean(dim=1).T, dim=1))
    return torch.stack(tokens)


def plain_scores(tokens: Tensor) -> Tensor:
    n, p, _ = tokens.shape
    scores = torch.empty(n, p)
    for i in range(n):
        nearest = torch.cdist(tokens[i], tokens.flatten(0, 1)).view(p, n, p).amin(dim=2)
        others = torch.cat([nearest[:, :i], nearest[:, i + 1 :]], dim=1)
        scores[i] = others.topk(int(INTERVAL * (n - 1)), dim=1, largest=False).values.mean(dim=1)
    return scores


def peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def work(side: str, setting: Setting, out: Path) -> dict[str, float]:
    """One measured run in this process, after a warm-up on a small lot; the scores go to a file."""
    run = run_ours if side == "ours" else run_plain
    run(lot(8, 1), setting)
    features = lot(setting.images, setting.layers)
    memory, cpu, wall = peak_bytes(), time.process_time(), time.perf_counter()
    cell = run(features, setting)
    measured = {
        "cpu_s": time.process_time() - cpu,
        "wall_s": time.perf_counter() - wall,
        "extra_mb": (peak_bytes() - memory) / 2**20,
    }
    np.save(out, cell.numpy())
    return measured


def measure(side: str, setting: Setting, out: Path) -> dict[str, float]:
    """`work` in a fresh process with one thread."""
    command = [sys.executable, __file__, "--side", side, "--setting", json.dumps(asdict(setting)), "--out", str(out)]
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(command, env=os.environ | one_thread, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def compare(setting: Setting, repeats: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        files = {side: Path(folder) / f"{side}.npy" for side in ("ours", "plain")}
        runs: dict[str, list[dict[str, float]]] = {"ours": [], "plain": []}
        for _ in range(repeats):
            for side, file in files.items():
                runs[side].append(measure(side, setting, file))
        difference = float(np.abs(np.load(files["ours"]) - np.load(files["plain"])).max())
    row: dict[str, Any] = {"path": setting.path, "peer": "torch.cdist per image"}
    for name, side in (("ours", "ours"), ("peer", "plain")):
        row[f"{name}_cpu_s"] = statistics.median(run["cpu_s"] for run in runs[side])
        row[f"{name}_wall_s"] = statistics.median(run["wall_s"] for run in runs[side])
        row[f"{name}_extra_mb"] = max(run["extra_mb"] for run in runs[side])
    row["features_mb"] = setting.images * setting.layers * SIDE * SIDE * CHANNELS * 4 / 2**20
    row["ratio"] = row["peer_cpu_s"] / row["ours_cpu_s"]
    row["goal"] = setting.goal
    row["difference"] = difference
    row["agree"] = difference <= TOLERANCE
    row["met"] = row["agree"] and row["ratio"] >= setting.goal
    return row | {"threads": 1, "repeats": repeats}


def rows(repeats: int = 2) -> list[dict[str, Any]]:
    """The rows of the speed table."""
    return [compare(SPEED, repeats), compare(BOUND, 1)]


def print_table(measured: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="MuSc against cdist, one thread")
    for name in ("what", "ours", "cdist", "ratio", "goal", "agree"):
        table.add_column(name, justify="left" if name == "what" else "right")
    for row in measured:
        agree = "yes" if row["agree"] else "NO"
        ours, peer = f"{row['ours_cpu_s']:.2f} s", f"{row['peer_cpu_s']:.2f} s"
        table.add_row(f"CPU, {row['path']}", ours, peer, f"{row['ratio']:.1f}x", f">= {row['goal']:.0f}x", agree)
        ratio = f"{row['peer_wall_s'] / row['ours_wall_s']:.1f}x"
        table.add_row("wall", f"{row['ours_wall_s']:.2f} s", f"{row['peer_wall_s']:.2f} s", ratio)
        table.add_row(
            f"memory beyond {row['features_mb']:.0f} MB of features",
            f"{row['ours_extra_mb']:.0f} MB",
            f"{row['peer_extra_mb']:.0f} MB",
            f"{row['peer_extra_mb'] / row['ours_extra_mb']:.1f}x",
            end_section=True,
        )
    Console().print(table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--side", choices=("ours", "plain"), help="measure one side in this process, print JSON")
    parser.add_argument("--setting", type=json.loads, help="with --side: the lot, as JSON")
    parser.add_argument("--out", type=Path, help="with --side: where the scores go")
    arguments = parser.parse_args()
    if arguments.side:
        torch.set_num_threads(1)
        print(json.dumps(work(arguments.side, Setting(**arguments.setting), arguments.out)))
    else:
        measured = rows(arguments.repeats)
        print_table(measured)
        sys.exit(0 if all(row["met"] for row in measured) else 1)
