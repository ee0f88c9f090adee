"""Sides for the tests of speed.measure: a fresh process imports them by name."""

from __future__ import annotations

import os
import time

import numpy as np

from speed.measure import Work


def fills(megabytes: int) -> Work:
    return Work(lambda: np.ones(megabytes * 2**17), lambda filled: filled[:3])


def sleeps(seconds: float) -> Work:
    return Work(lambda: time.sleep(seconds), lambda _: 0)


def threads() -> Work:
    return Work(lambda: int(os.environ["OMP_NUM_THREADS"]))


def breaks() -> Work:
    raise ValueError("the side is broken")
