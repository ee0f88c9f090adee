"""Nearest neighbours against faiss and torch.cdist, and the greedy coreset against the loop that anomalib 2.7 runs.

    python benchmarks/neighbours.py [--features FILE.pt] [--quick]

Everything runs on one thread, in one process. The features are synthetic unless a file is given: a mixture of 200
Gaussians whose standard deviation falls as i^-0.6 along 256 axes, so that 16 axes hold about two thirds of the
energy, as in ResNet features; cells of real images repeat more and are easier. `--features` takes a saved tensor (n, d) of
real ones instead. The peer of the coreset does one full distance pass per member; a part of its steps is timed and the rest
extrapolated, every step costing the same.
"""

from __future__ import annotations

import argparse
import ctypes
import re
import statistics
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sparcal.neighbours import greedy_coreset, nearest

TIMED_STEPS = 100


def features(n: int, d: int, *, seed: int = 0, source: Tensor | None = None) -> Tensor:
    """`(n, d)`: random rows of `source`, or the synthetic mixture."""
    generator = torch.Generator().manual_seed(seed)
    if source is not None:
        if len(source) < n:
            raise SystemExit(f"this row needs {n} feature rows, the file holds {len(source)}: give more images")
        return source[torch.randperm(len(source), generator=generator)[:n]]
    spread = torch.arange(1, min(256, d) + 1) ** -0.6
    shape = (n, len(spread))
    centres = torch.randn(200, len(spread), generator=generator) * spread
    size = 0.6 * torch.randn(n, 1, generator=generator).mul(0.5).exp()
    latent = (
        centres[torch.randint(200, (n,), generator=generator)] + torch.randn(shape, generator=generator) * spread * size
    )
    axes = torch.linalg.qr(torch.randn(d, len(spread), generator=generator)).Q
    offset: Tensor = (
        torch.nn.functional.normalize(torch.rand(d, generator=generator), dim=0) * 6
    )  # the mean of ReLU features
    mixture: Tensor = latent @ axes.T + offset
    return mixture


def projected(points: Tensor, dimension: int) -> Tensor:
    """A random projection, as PatchCore applies before its coreset; both sides get the same."""
    generator = torch.Generator().manual_seed(1)
    axes = torch.randn(points.shape[1], dimension, generator=generator) / dimension**0.5
    return torch.mm(points, axes)


def peer_coreset(points: Tensor, size: int) -> Tensor:
    """The plain loop: one distance from the last member to every point per step."""
    chosen, distance = [0], torch.full((len(points),), torch.inf)
    for _ in range(size - 1):
        distance = torch.minimum(distance, torch.linalg.norm(points - points[chosen[-1]], ord=2, dim=1))
        chosen.append(int(distance.argmax()))
    return torch.tensor(chosen)


def timed(work: Callable[[], Any], repeats: int) -> tuple[float, float, Any]:
    """Median CPU seconds, median wall seconds, and the last result."""
    cpu, wall, result = [], [], None
    for _ in range(repeats):
        start_cpu, start_wall = time.process_time(), time.perf_counter()
        result = work()
        cpu.append(time.process_time() - start_cpu)
        wall.append(time.perf_counter() - start_wall)
    return statistics.median(cpu), statistics.median(wall), result


def with_memory(work: Callable[[], Any]) -> tuple[float | None, Any]:
    """How many megabytes `work` raises the peak of resident memory by (None without Linux's /proc), and its result."""
    reset, status = Path("/proc/self/clear_refs"), Path("/proc/self/status")
    if not reset.exists():
        return None, work()

    def peak() -> float:
        found = re.search(r"VmHWM:\s+(\d+)", status.read_text())
        assert found is not None
        return int(found[1]) / 1024

    ctypes.CDLL(None).malloc_trim(0)  # memory freed earlier must not hide memory needed now
    reset.write_text("5")
    before = peak()
    result = work()
    return peak() - before, result


def radius(points: Tensor, chosen: Tensor) -> float:
    return float(nearest(points, points[chosen])[0].max())


def coreset_row(n: int, d: int, dimension: int, size: int, goal: float | None, source: Tensor | None) -> dict[str, Any]:
    points = features(n, d, source=source)
    d, points = points.shape[1], projected(points, dimension)
    greedy_coreset(points[:2000], 20)  # compiles, or loads what was compiled before
    few = greedy_coreset(points[:6000], 600), peer_coreset(points[:6000], 600)
    same = torch.equal(*few)
    drift = abs(radius(points[:6000], few[0]) / radius(points[:6000], few[1]) - 1)
    repeats = 3 if n < 100_000 else 1
    ours_cpu, ours_wall, (extra, chosen) = timed(lambda: with_memory(lambda: greedy_coreset(points, size)), repeats)
    steps = min(TIMED_STEPS, size - 1)
    cpu, wall, first = timed(lambda: peer_coreset(points, steps + 1), 1)
    scale = (size - 1) / steps
    return {
        "path": f"greedy coreset, {n} x {d} (projected to {dimension}) -> {size}",
        "peer": f"loop of anomalib 2.7, {steps} of {size - 1} steps timed",
        "ours_cpu_s": ours_cpu,
        "ours_wall_s": ours_wall,
        "ours_extra_mb": extra,
        "peer_cpu_s": cpu * scale,
        "peer_wall_s": wall * scale,
        "ratio": cpu * scale / ours_cpu,
        "goal": goal,
        "agree": bool(torch.equal(chosen[: steps + 1], first)) and (same or drift < 1e-5),
    }


def nearest_rows(queries: int, bank: int, d: int, source: Tensor | None) -> list[dict[str, Any]]:
    points = features(queries + bank, d, source=source)
    d = points.shape[1]
    query, rest = points[:queries].contiguous(), points[queries:].contiguous()
    nearest(query, rest)
    cpu, wall, (extra, (distance, _)) = timed(lambda: with_memory(lambda: nearest(query, rest)), 5)
    ours = {
        "path": f"exact nearest neighbour, {queries} x {d} against {bank}",
        "ours_cpu_s": cpu,
        "ours_wall_s": wall,
        "ours_extra_mb": extra,
    }
    peers: dict[str, Callable[[], Tensor]] = {"torch.cdist": lambda: torch.cdist(query, rest).min(1).indices}
    if find_spec("faiss") is not None:
        import faiss

        faiss.omp_set_num_threads(1)
        flat = faiss.IndexFlatL2(d)
        flat.add(rest.numpy())  # not timed, while our preparation of the bank is
        peers = {"faiss IndexFlatL2": lambda: torch.from_numpy(flat.search(query.numpy(), 1)[1])[:, 0]} | peers
    measured = []
    for name, work in peers.items():
        work()
        cpu, wall, index = timed(work, 5)
        # The peers expand |a - b|² in float32 and mistake near ties: their row may be a little farther, never nearer.
        slack = (query.double() - rest[index].double()).norm(dim=1) / distance[:, 0].double() - 1
        peer = {"peer": name, "peer_cpu_s": cpu, "peer_wall_s": wall, "ratio": cpu / ours["ours_cpu_s"], "goal": 1.0}
        measured.append(ours | peer | {"agree": bool((slack.min() > -1e-6) & (slack.max() < 1e-3))})
    return measured


def rows(source: Tensor | None = None, *, quick: bool = False) -> list[dict[str, Any]]:
    """One row per path and peer; `ratio` is the peer's CPU seconds over ours, `goal` what it must reach."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        if quick:
            return [*nearest_rows(200, 3000, 256, source), coreset_row(6000, 256, 128, 600, None, source)]
        measured = [*nearest_rows(784, 23_520, 1024, source), coreset_row(51_200, 1536, 267, 5_120, 100.0, source)]
        if source is None:
            measured.append(coreset_row(235_200, 1024, 128, 23_520, None, None))
        return measured
    finally:
        torch.set_num_threads(threads)


def main() -> None:
    from rich.console import Console
    from rich.table import Table

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=Path, help="saved tensor (n, d) of real features")
    parser.add_argument("--quick", action="store_true", help="small sizes, seconds")
    options = parser.parse_args()
    source = None if options.features is None else torch.load(options.features, weights_only=True)
    table = Table(title="neighbours, one thread")
    for column in ("path", "peer", "ours CPU s (wall)", "extra MB", "peer CPU s (wall)", "ratio", "goal", "agree"):
        table.add_column(column)
    for row in rows(source, quick=options.quick):
        extra = row["ours_extra_mb"]
        table.add_row(
            row["path"],
            row["peer"],
            f"{row['ours_cpu_s']:.3g} ({row['ours_wall_s']:.3g})",
            "-" if extra is None else f"{extra:.0f}",
            f"{row['peer_cpu_s']:.3g} ({row['peer_wall_s']:.3g})",
            f"{row['ratio']:.1f}",
            "minutes" if row["goal"] is None else f"{row['goal']:g}",
            "yes" if row["agree"] else "NO",
        )
    Console(width=180).print(table)


if __name__ == "__main__":
    main()
