"""Results come in order, errors where they belong, and no thread runs far ahead."""

from __future__ import annotations

import threading
import time

import pytest

from sparcal.errors import DataError
from sparcal.threads import core_count, in_order


@pytest.mark.parametrize("workers", [1, 4])
def test_results_come_in_order(workers):
    def slow_when_even(x):
        time.sleep(0.01 * (x % 2 == 0))
        return x * x

    assert list(in_order(slow_when_even, range(20), workers=workers)) == [x * x for x in range(20)]


def test_threads_run_only_a_few_items_ahead():
    started = []
    results = in_order(started.append, range(100), workers=2, ahead=5)
    next(results)
    time.sleep(0.05)
    assert len(started) <= 6
    results.close()
    assert len(started) <= 6


def test_an_error_comes_where_its_result_would_have_come():
    results = in_order(lambda x: 1 // x, [1, 0, 1], workers=2)
    assert next(results) == 1
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_no_thread_is_left_behind():
    list(in_order(str, range(5), workers=3))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("sparcal")]


def test_no_workers_are_refused():
    with pytest.raises(
        DataError, match="workers must be a whole number of at least 1, got 0: give the number of cores"
    ):
        list(in_order(str, [1], workers=0))


def test_there_is_room_for_a_thread():
    assert core_count() >= 1
