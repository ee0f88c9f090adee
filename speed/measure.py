"""One way to measure: each side runs in a process of its own, with a stated number of threads, and is timed several times.

A side is a function of a benchmark module that makes its inputs from a seed and returns a `Work`. Only `Work.run` is
timed: CPU seconds, wall seconds, and by how much it raised the peak of resident memory. What `Work.outcome`
makes of the result comes back as an array, so that the outputs of two sides can be compared.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Self

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
THREAD_SETTINGS = ("OMP", "MKL", "OPENBLAS", "NUMBA")
LIMIT = 240.0  # seconds a side may take in all; a benchmark that hangs must not hang the others


@dataclass(frozen=True)
class Cost:
    """Medians over the runs, except memory: the largest rise of the peak (None where the system cannot say)."""

    cpu_s: float
    wall_s: float
    extra_mb: float | None = None
    runs: int = 1

    def times(self, factor: float) -> Self:
        """The cost of `factor` times the work; memory stays."""
        return replace(self, cpu_s=self.cpu_s * factor, wall_s=self.wall_s * factor)


@dataclass(frozen=True)
class Goal:
    """What `Row.measured` must reach: at least `bound`, or at most that."""

    bound: float
    what: str
    unit: str = "x"
    at_most: bool = False

    def met(self, measured: float) -> bool:
        return measured <= self.bound if self.at_most else measured >= self.bound

    def __str__(self) -> str:
        return f"{'<=' if self.at_most else '>='} {self.bound:g}{self.unit} {self.what}"


@dataclass(frozen=True)
class Row:
    """One line of the speed table.

    Args:
        measured: in the unit of the goal.
        threads: of both sides, or "ours, theirs" where they differ.
        agreement: how the outputs were compared, and what came out.
        note: what a reader must know to judge the number, such as which part of a slow peer was timed.
        short: what to say if the goal is not met: what was tried, and where the limit is.
    """

    path: str
    peer: str
    ours: Cost
    theirs: Cost | None
    measured: float
    goal: Goal | None
    agree: bool
    agreement: str
    threads: int | str = 1
    note: str = ""
    short: str = ""

    @property
    def met(self) -> bool:
        return self.agree and (self.goal is None or self.goal.met(self.measured))


@dataclass(frozen=True)
class Work:
    """What one side does, and what is compared of it."""

    run: Callable[[], Any]
    outcome: Callable[[Any], Any] = np.asarray


def measure(
    side: Callable[..., Work], *arguments: Any, threads: int = 1, repeats: int = 5, limit: float = LIMIT
) -> tuple[Cost, Any]:
    """Cost and outcome of `side(*arguments)`, measured in a fresh process.

    Args:
        arguments: numbers, strings and lists.
        repeats: fewer are made if they take more than half of `limit`.
        limit: seconds after which the process is stopped and TimeoutError raised.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "outcome.npy"
        job = {"module": side.__module__, "side": side.__name__, "arguments": arguments, "repeats": repeats}
        command = [sys.executable, "-W", "ignore", "-m", "speed.measure"]
        command += [json.dumps(job | {"limit": limit}), str(out)]
        name = f"{side.__module__}.{side.__name__}{arguments}"
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=environment(threads), check=False, capture_output=True, text=True, timeout=limit
            )
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(f"{name} did not finish in {limit:.0f} s") from error
        if done.returncode != 0:
            raise RuntimeError(f"{name} failed: {' '.join(done.stderr.split()[-60:])}")
        runs = json.loads(done.stdout.splitlines()[-1])
        return _summary(runs), np.load(out)


@dataclass(frozen=True)
class Fastest:
    """The better figure of a side that ran with one thread and with one per core; `alone` is the cost with one."""

    cost: Cost
    outcome: Any
    threads: int
    alone: Cost


def fastest(side: Callable[..., Work], *arguments: Any, repeats: int = 5) -> Fastest:
    """Cost and outcome with one thread or with one per core, whichever takes less time.

    Some work suffers from a second thread: a side that is compared has the right to its better figure.
    """
    counts = sorted({1, cores()})
    found = [(*measure(side, *arguments, threads=threads, repeats=repeats), threads) for threads in counts]
    return Fastest(*min(found, key=lambda one: one[0].wall_s), found[0][0])


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def measure_command(command: Sequence[str], *, threads: int = 1, repeats: int = 5) -> tuple[Cost, str]:
    """Cost of a whole process, from its start to its end, and what it printed."""
    runs, printed = [], ""
    for _ in range(repeats):
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(
            command, cwd=ROOT, env=environment(threads), check=True, capture_output=True, text=True, timeout=LIMIT
        )
        wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        runs.append([after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, wall, None])
        printed = done.stdout
    return _summary(runs), printed


def environment(threads: int) -> dict[str, str]:
    """Of a process that may use `threads` threads, which sleep while they wait: spinning would count as CPU time."""
    settings = {f"{name}_NUM_THREADS": str(threads) for name in THREAD_SETTINGS}
    return os.environ | settings | {"OMP_WAIT_POLICY": "passive", "TQDM_DISABLE": "1"}


def timed(run: Callable[[], Any]) -> tuple[Cost, Any]:
    """CPU and wall seconds of `run` in this process, and its result."""
    cpu, wall = time.process_time(), time.perf_counter()
    result = run()
    return Cost(time.process_time() - cpu, time.perf_counter() - wall), result


def extra_memory(run: Callable[[], Any]) -> tuple[float | None, Any]:
    """How many megabytes `run` raises the peak of resident memory by (None without Linux's /proc), and its result."""
    reset, status = Path("/proc/self/clear_refs"), Path("/proc/self/status")
    if not reset.exists():
        return None, run()

    def peak() -> float:
        found = re.search(r"VmHWM:\s+(\d+)", status.read_text())
        assert found is not None
        return int(found[1]) / 1024

    ctypes.CDLL(None).malloc_trim(0)  # memory freed earlier must not hide memory needed now
    reset.write_text("5")
    before = peak()
    result = run()
    return peak() - before, result


def _summary(runs: list[list[Any]]) -> Cost:
    extra = [run[2] for run in runs if run[2] is not None]
    cpu, wall = (statistics.median(run[place] for run in runs) for place in (0, 1))
    return Cost(cpu, wall, max(extra) if extra else None, len(runs))


def _run_job(job: dict[str, Any], out: Path) -> None:
    """What the fresh process does: prepare, run, print the costs, save the outcome."""
    started = time.perf_counter()
    work: Work = getattr(import_module(job["module"]), job["side"])(*job["arguments"])
    runs: list[list[float]] = []
    result = None
    while len(runs) < job["repeats"] and (not runs or time.perf_counter() - started < job["limit"] / 2):
        result = None  # what the last run made must not count as memory of this one
        cost, (extra, result) = timed(lambda: extra_memory(work.run))
        runs.append([cost.cpu_s, cost.wall_s, extra])
    np.save(out, work.outcome(result))
    print(json.dumps(runs))


if __name__ == "__main__":
    _run_job(json.loads(sys.argv[1]), Path(sys.argv[2]))
