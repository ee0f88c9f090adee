"""Runs units in processes of one machine, with one thread budget: workers x threads is the number of cores.

Workers are started fresh (spawn) and get one unit at a time. A worker stays with the units of one category and encoder
while there are any, because it holds their features; one that runs out takes over half of what another has left. A
worker that dies, for want of memory say, is replaced and its unit tried once more. Workers end when their parent does.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import threading
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import groupby
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from sparcal.bench.plan.unit import Unit
from sparcal.bench.run.evaluator import Evaluator
from sparcal.bench.run.folder import RunFolder
from sparcal.bench.run.work import Failed, UnitProgress, work_off
from sparcal.bench.run.workplace import Workplace, thread_budget

_TRIES = 2
_PATIENCE_S = 5.0  # for a dismissed worker, which may be inside a long loop


def run_local(
    units: Sequence[Unit], workplace: Workplace, *, workers: int, progress: UnitProgress | None = None
) -> list[Failed]:
    """Run units and keep their rows; returns those that failed. A single worker runs in this process."""
    if workers > 1 and len(units) > 1:
        return _run_in_team(units, workplace, workers, progress)
    failed: list[Failed] = []
    with thread_budget(workplace.threads):
        evaluator = Evaluator(workplace)
        for done, unit in enumerate(units, start=1):
            reason = work_off(unit, evaluator, workplace)
            if reason:
                failed.append(Failed(unit, reason))
            if progress is not None:
                progress(done, len(units), len(failed))
    return failed


def _run_in_team(
    units: Sequence[Unit], workplace: Workplace, workers: int, progress: UnitProgress | None
) -> list[Failed]:
    team = _Team(workplace, deque(deque(group) for _, group in groupby(units, key=lambda unit: unit.feature_group)))
    failed: list[Failed] = []
    tries: Counter[str] = Counter()
    done = 0
    try:
        team.start(min(workers, len(units)))
        while team.busy:
            for worker, answer in team.next_answers():
                unit, worker.unit = worker.unit, None
                assert unit is not None
                tries[unit.hash] += 1
                if answer is None and tries[unit.hash] < _TRIES:
                    team.give_back(unit)
                else:
                    done += 1
                    reason = died(unit, workplace, worker.process.exitcode) if answer is None else answer
                    failed += [Failed(unit, reason)] if reason else []
                if progress is not None:
                    progress(done, len(units), len(failed))
                team.employ(worker)
    finally:
        team.dismiss()
    return failed


def died(unit: Unit, workplace: Workplace, exit_code: int | None) -> str:
    """Write down that a worker died over a unit; returns the sentence."""
    reason = f"The worker process died with exit code {exit_code}, {_TRIES} times: it may have run out of memory."
    RunFolder(Path(workplace.results)).fail(unit, reason, "")
    return reason


@dataclass(eq=False)
class _Worker:
    process: SpawnProcess
    pipe: Connection
    unit: Unit | None = None
    queue: deque[Unit] = field(default_factory=deque)


@dataclass(eq=False)
class _Team:
    """The workers and what is left to do, as groups that share features."""

    workplace: Workplace
    groups: deque[deque[Unit]]
    workers: list[_Worker] = field(default_factory=list)

    @property
    def busy(self) -> bool:
        return any(worker.unit is not None for worker in self.workers)

    def start(self, count: int) -> None:
        for _ in range(count):
            self.employ(self._hire())

    def employ(self, worker: _Worker) -> None:
        """Give a worker its next unit, if there is one; a dead worker is replaced first."""
        if not worker.process.is_alive():
            self.workers.remove(worker)
            replacement = self._hire()
            replacement.queue = worker.queue
            worker = replacement
        if not worker.queue:
            worker.queue = self.groups.popleft() if self.groups else self._half_of_the_longest()
        if worker.queue:
            worker.unit = worker.queue.popleft()
            with suppress(OSError):  # it may have died this moment: `next_answers` will find out
                worker.pipe.send_bytes(json.dumps(worker.unit.to_json()).encode())

    def give_back(self, unit: Unit) -> None:
        """Put an unfinished unit first in line."""
        self.groups.appendleft(deque([unit]))

    def next_answers(self) -> list[tuple[_Worker, str | None]]:
        """Workers that are done: with an empty text, with the reason of a failure, or with None if they died."""
        waiting: dict[Any, _Worker] = {}
        for worker in self.workers:
            if worker.unit is not None:
                waiting[worker.pipe] = worker
                waiting[worker.process.sentinel] = worker
        answers: dict[_Worker, str | None] = {}
        for ready in wait(list(waiting)):
            worker = waiting[ready]
            if worker in answers:
                continue
            try:
                answers[worker] = worker.pipe.recv_bytes().decode() if worker.pipe.poll() else None
            except (EOFError, OSError):
                answers[worker] = None
            if answers[worker] is None:
                worker.process.join()
        return list(answers.items())

    def dismiss(self) -> None:
        """End all workers, now."""
        for worker in self.workers:
            worker.process.terminate()
        for worker in self.workers:
            worker.process.join(_PATIENCE_S)
            worker.process.kill()
            worker.process.join()
            worker.pipe.close()

    def _hire(self) -> _Worker:
        spawn = multiprocessing.get_context("spawn")
        ours, theirs = spawn.Pipe()
        process = spawn.Process(target=_serve, args=(theirs, json.dumps(self.workplace.to_json())), daemon=True)
        with _deaf_to_ctrl_c():
            process.start()
        theirs.close()
        worker = _Worker(process, ours)
        self.workers.append(worker)
        return worker

    def _half_of_the_longest(self) -> deque[Unit]:
        longest = max(self.workers, key=lambda worker: len(worker.queue))
        taken: deque[Unit] = deque()
        for _ in range((len(longest.queue) + 1) // 2):
            taken.appendleft(longest.queue.pop())
        return taken


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """Processes that begin in this block never hear of Ctrl-C, which a terminal sends to all: we do, and dismiss them."""
    resource_tracker.ensure_running()  # its start, which the first spawned process brings about, lets Ctrl-C in again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)  # one that came meanwhile arrives now


def _serve(pipe: Connection, workplace_json: str) -> None:
    """The life of a worker: units in, reasons out, until the pipe closes."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what is being written is put away
    threading.Thread(target=_end_with_parent, daemon=True).start()
    workplace = Workplace(**json.loads(workplace_json))
    with thread_budget(workplace.threads):
        evaluator = Evaluator(workplace)
        while True:
            try:
                unit = Unit.from_json(json.loads(pipe.recv_bytes()))
            except EOFError:
                return
            pipe.send_bytes(work_off(unit, evaluator, workplace).encode())


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
