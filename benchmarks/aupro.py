"""AU-PRO of 100 maps of 1024 x 1024 against anomalib's: CPU seconds, extra memory, and whether the numbers agree.

    python benchmarks/aupro.py

Each side runs in a process of its own on the same maps, one thread each. Ours computes both limits; the peer, which
needs a full run for each, is timed at 0.3 only. Extra memory is the rise of the peak resident size above the inputs.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from importlib.util import find_spec
from typing import Any

import numpy as np

LIMITS = (0.3, 0.05)
GOAL, MEMORY_GOAL = 15.0, 5.0
TOLERANCE = 1e-6
FEW = 4  # images on which the second limit is compared too, outside the timing


def scene(n: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Masks (bool) and maps (float32): smooth noise as upsampled cell scores are, a lifted ellipse in every second."""
    import cv2

    masks, maps = np.zeros((n, size, size), np.uint8), np.empty((n, size, size), np.float32)
    for number in range(n):
        rng = np.random.default_rng(number)
        maps[number] = cv2.resize(rng.random((size // 16, size // 16), dtype=np.float32), (size, size))
        if number % 2:
            centre = tuple(int(c) for c in rng.integers(size // 5, 4 * size // 5, 2))
            cv2.ellipse(masks[number], centre, (size // 16, size // 32), 30, 0, 360, 1, -1)
            maps[number] += 0.3 * masks[number]
    return masks.view(bool), maps


def run_ours(masks: np.ndarray, maps: np.ndarray) -> list[float]:
    from sparcal.bench.metrics import aupro

    return list(aupro(masks, maps, LIMITS))


def run_anomalib(masks: np.ndarray, maps: np.ndarray, limit: float = LIMITS[0]) -> float:
    import torch
    from anomalib.metrics.aupro import _AUPRO  # the metric itself, without the wrapper that unpacks batches

    metric = _AUPRO(fpr_limit=limit)
    for mask, score_map in zip(masks, maps, strict=True):
        metric.update(torch.from_numpy(score_map)[None], torch.from_numpy(mask)[None])
    return float(metric.compute())


def peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def work(side: str, n: int, size: int) -> dict[str, Any]:
    """One measured run in this process, after a warm-up on one small pair that pays for imports."""
    run = run_ours if side == "ours" else run_anomalib
    run(*scene(2, 64))
    masks, maps = scene(n, size)
    memory, cpu, wall = peak_bytes(), time.process_time(), time.perf_counter()
    value = run(masks, maps)
    result = {
        "cpu_s": time.process_time() - cpu,
        "wall_s": time.perf_counter() - wall,
        "extra_mb": (peak_bytes() - memory) / 2**20,
        "value": value,
    }
    few = masks[:FEW], maps[:FEW]
    result["few"] = run_ours(*few) if side == "ours" else [run_anomalib(*few, limit) for limit in LIMITS]
    return result


def measure(side: str, n: int, size: int) -> dict[str, Any]:
    """`work` in a fresh process with one thread."""
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENCV_FOR_THREADS_NUM"), "1")
    command = [sys.executable, "-W", "ignore", __file__, "--side", side, "--images", str(n), "--size", str(size)]
    done = subprocess.run(command, env=os.environ | one_thread, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def rows(n: int = 100, size: int = 1024, repeats: int = 3) -> list[dict[str, Any]]:
    """One row for the speed table; the peer's fields are None where anomalib is not installed."""
    ours = [measure("ours", n, size) for _ in range(repeats)]
    row: dict[str, Any] = {
        "path": f"AU-PRO, {n} x {size} x {size}",
        "peer": "anomalib AUPRO",
        "ours_cpu_s": statistics.median(run["cpu_s"] for run in ours),
        "ours_wall_s": statistics.median(run["wall_s"] for run in ours),
        "ours_extra_mb": max(run["extra_mb"] for run in ours),
        "goal": GOAL,
        "memory_goal": MEMORY_GOAL,
        "threads": 1,
        "repeats": repeats,
    }
    if find_spec("anomalib") is None:
        absent = ("peer_cpu_s", "peer_wall_s", "peer_extra_mb", "ratio", "memory_ratio", "difference", "agree", "met")
        return [row | dict.fromkeys(absent)]
    peer = measure("anomalib", n, size)
    row["peer_cpu_s"], row["peer_wall_s"], row["peer_extra_mb"] = peer["cpu_s"], peer["wall_s"], peer["extra_mb"]
    row["ratio"] = peer["cpu_s"] / row["ours_cpu_s"]
    row["memory_ratio"] = peer["extra_mb"] / max(row["ours_extra_mb"], 2**-8)  # at least one page
    pairs = [(ours[0]["value"][0], peer["value"]), *zip(ours[0]["few"], peer["few"], strict=True)]
    row["difference"] = max(abs(a - b) for a, b in pairs)
    row["agree"] = row["difference"] <= TOLERANCE
    row["met"] = row["agree"] and row["ratio"] >= GOAL and row["memory_ratio"] >= MEMORY_GOAL
    return [row]


def print_table(measured: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="AU-PRO, CPU seconds and extra memory, one thread")
    for name in ("path", "ours", "anomalib", "ratio", "goal", "agree"):
        table.add_column(name, justify="left" if name == "path" else "right")
    for row in measured:
        for what, key, unit, ratio, goal in (
            ("time", "cpu_s", "s", "ratio", "goal"),
            ("memory", "extra_mb", "MB", "memory_ratio", "memory_goal"),
        ):
            peer, factor = row[f"peer_{key}"], row[ratio]
            table.add_row(
                f"{what}, {row['path']}",
                f"{row[f'ours_{key}']:.2f} {unit}",
                "not installed" if peer is None else f"{peer:.2f} {unit}",
                "" if factor is None else f"{factor:.1f}x",
                f">= {row[goal]:.0f}x",
                {None: "", True: "yes", False: "NO"}[row["agree"]],
            )
    Console().print(table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--side", choices=("ours", "anomalib"), help="measure one side in this process, print JSON")
    arguments = parser.parse_args()
    if arguments.side:
        print(json.dumps(work(arguments.side, arguments.images, arguments.size)))
    else:
        print_table(rows(arguments.images, arguments.size))
