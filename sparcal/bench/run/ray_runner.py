"""Runs units on a Ray cluster, one task each; every node must see data, cache and results under the same paths.

The numbers are those of the local engine: a task runs the same code on the same files with the same thread count.
Ray repeats a task whose process or node died; a unit that fails by itself would fail again and is not repeated.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparcal.bench.plan.unit import Unit
from sparcal.bench.run.folder import RunFolder
from sparcal.bench.run.work import Failed, UnitProgress
from sparcal.bench.run.workplace import Workplace
from sparcal.errors import DataError
from sparcal.ray_cluster import connected, load_ray

if TYPE_CHECKING:
    from sparcal.bench.run.evaluator import Evaluator

_RETRIES = 2
_WAITING_PER_SLOT = 2  # tasks submitted per place to run: enough that no node waits, few enough to end quickly


def run_ray(
    units: Sequence[Unit],
    workplace: Workplace,
    *,
    workers: int,
    address: str | None = None,
    gpus: float = 0.0,
    progress: UnitProgress | None = None,
) -> list[Failed]:
    """Run units on a cluster and keep their rows; returns those that failed.

    Args:
        workers: size of a cluster that is started here, in tasks at once; a running cluster has its own size.
        address: of a running cluster, "auto" to find it; None starts one on this machine.
        gpus: that each task reserves.
    """
    ray = load_ray()
    failed: list[Failed] = []
    with connected(ray, address=address, cpus=workers * workplace.threads):
        _reserve(ray, gpus)
        task = ray.remote(num_cpus=workplace.threads, num_gpus=gpus, max_retries=_RETRIES)(_task)
        place = json.dumps(workplace.to_json())
        slots = max(1, int(ray.cluster_resources().get("CPU", 1) // workplace.threads))
        running: dict[Any, Unit] = {}
        left, done = iter(units), 0
        while True:
            while len(running) < slots * _WAITING_PER_SLOT and (unit := next(left, None)) is not None:
                running[task.remote(json.dumps(unit.to_json()), place)] = unit
            if not running:
                return failed
            for ready in ray.wait(list(running), num_returns=1)[0]:
                unit = running.pop(ready)
                reason = _answer(ray, ready, unit, workplace)
                done += 1
                if reason:
                    failed.append(Failed(unit, reason))
                if progress is not None:
                    progress(done, len(units), len(failed))


def _answer(ray: Any, ready: Any, unit: Unit, workplace: Workplace) -> str:
    try:
        reason: str = ray.get(ready)
    except ray.exceptions.RayError as error:  # the process or the node died, as often as it was retried
        reason = f"The task died on the cluster, {_RETRIES + 1} times ({type(error).__name__})."
        RunFolder(Path(workplace.results)).fail(unit, reason, str(error))
    return reason


def _task(unit_json: str, workplace_json: str) -> str:
    """One unit, in a process of the cluster."""
    from sparcal.bench.run.work import work_off
    from sparcal.bench.run.workplace import thread_budget

    workplace = Workplace(**json.loads(workplace_json))
    with thread_budget(workplace.threads):
        return work_off(Unit.from_json(json.loads(unit_json)), _evaluator(workplace_json), workplace)


@lru_cache(maxsize=1)
def _evaluator(workplace_json: str) -> Evaluator:
    """The evaluator of this process: Ray reuses processes, and features in memory with them."""
    from sparcal.bench.run.evaluator import Evaluator

    return Evaluator(Workplace(**json.loads(workplace_json)))


def _reserve(ray: Any, gpus: float) -> None:
    """Refuse tasks that would wait for ever."""
    held = float(ray.cluster_resources().get("GPU", 0.0))
    if gpus > held:
        raise DataError(
            f"Each task asks for {gpus:g} GPU, and the cluster has {held:g}: lower --num-gpus, or add nodes."
        )
