"""How many threads there is room for; work done by a few, handed out in order, in memory that does not grow with it."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

from sparcal.settings import whole_number

Item = TypeVar("Item")
Result = TypeVar("Result")


def core_count() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(
    work: Callable[[Item], Result], items: Iterable[Item], *, workers: int, ahead: int | None = None
) -> Generator[Result, None, None]:
    """`work` of every item, in order, by `workers` threads that run at most a few items ahead of the consumer.

    Args:
        ahead: items that may be under way or done before they are asked for; twice the workers unless given.
    """
    whole_number(workers, "workers", least=1, hint="give the number of cores to use")
    waiting = iter(items)
    pool = ThreadPoolExecutor(workers, thread_name_prefix="sparcal")
    try:
        running: deque[Future[Result]] = deque(
            pool.submit(work, item) for item in islice(waiting, ahead or 2 * workers)
        )
        while running:
            done = running.popleft().result()
            running.extend(pool.submit(work, item) for item in islice(waiting, 1))
            yield done
    finally:
        pool.shutdown(cancel_futures=True)
