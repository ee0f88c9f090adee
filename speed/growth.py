"""How cost grows: time and memory of the steps of a lot against training images, cells and lot size, with exponents.

PatchCore, k = 8, 256 channels, on features that vary along a few axes at each cell, in a file that is mapped; one thread.
From 100 training images of 16 x 16 cells and a lot of 100, one of the three is changed at a time. The exponent is the slope of a
straight line through the logarithms: 1 is in proportion, 2 is with the square. Memory is the rise of the peak above the
features given. A lot is scored in pieces of 100 images, as a station does. `python -m speed growth` goes further, from a lot
of 25: to 2,000 training images, 64 x 64 cells and a lot of 10,000.
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from sparcal import SPARC, Features
from sparcal.detectors import PatchCore
from speed.measure import Cost, Work, extra_memory, measure, timed

CHANNELS, K = 256, 8
PIECE = 100  # images
USUAL = {"training images": 100, "cells": 256, "lot size": 100}
CHANGES = {
    "training images": (50, 200, 400),
    "cells": (64, 256, 576),
    "lot size": (25, 100, 400),
}
LARGE_USUAL = {"training images": 100, "cells": 256, "lot size": 25}
LARGE = {
    "training images": (50, 200, 800, 2000),
    "cells": (64, 256, 1024, 4096),
    "lot size": (25, 400, 10_000),
}
QUICK = {"training images": (4, 8, 16), "cells": (16, 36, 64), "lot size": (4, 8, 16)}


@dataclass(frozen=True)
class Curve:
    """The cost of one step against one quantity."""

    step: str
    against: str
    amounts: tuple[int, ...]
    costs: tuple[Cost, ...]

    @property
    def exponent(self) -> float:
        """Of CPU seconds."""
        return slope(self.amounts, [cost.cpu_s for cost in self.costs])

    @property
    def memory_exponent(self) -> float | None:
        memory = [cost.extra_mb for cost in self.costs]
        return None if None in memory else slope(self.amounts, [max(mb or 0, 0.1) for mb in memory])


def slope(amounts: tuple[int, ...], values: list[float]) -> float:
    return float(np.polyfit(np.log(amounts), np.log(values), 1)[0])


def features(n: int, side: int, seed: int) -> Features:
    """Each cell has a mean and three axes of its own; images differ along these and by a little noise."""
    fixed = torch.Generator().manual_seed(0)
    mean = torch.randn(side, side, CHANNELS, generator=fixed)
    axes = torch.randn(side, side, 3, CHANNELS, generator=fixed)
    random = torch.Generator().manual_seed(seed)
    with tempfile.TemporaryFile() as file:  # which stays until the mapping goes
        x = torch.from_numpy(np.memmap(file, np.float32, "w+", shape=(n, side, side, CHANNELS)))
    for first in range(0, n, PIECE):
        piece = x[first : first + PIECE]
        amounts = torch.randn(len(piece), side, side, 3, generator=random)
        piece.normal_(0, 0.2, generator=random).add_(mean).add_(torch.einsum("nhws,hwsd->nhwd", amounts, axes))
    return Features((x,))


def correct(images: int, cells: int, lot: int) -> Work:
    """SPARC: fit on the normals, correct the training features."""
    del lot
    side = round(cells**0.5)
    normals, training = features(K, side, 1), features(images, side, 2)

    def run() -> Features:
        return SPARC().fit(normals).apply_reference(training)

    run()
    return Work(run)


def rebuild(images: int, cells: int, lot: int) -> Work:
    """PatchCore: choose the coreset of the corrected training features."""
    del lot
    training = features(images, round(cells**0.5), 2)
    PatchCore().fit(training[:16])  # loads what was compiled before
    return Work(lambda: PatchCore().fit(training))


def score(images: int, cells: int, lot: int) -> Work:
    """SPARC and PatchCore: correct and score the lot."""
    side = round(cells**0.5)
    sparc, test = SPARC().fit(features(K, side, 1)), features(lot, side, 3)
    training = features(images, side, 2).levels[0].flatten(0, 2)
    detector = PatchCore()
    detector.bank_ = training[torch.randperm(len(training), generator=torch.Generator().manual_seed(0))[::10]]
    detector.score(test[:1])

    def run() -> list[Any]:
        return [detector.score(sparc.apply(test[first : first + PIECE])).image for first in range(0, lot, PIECE)]

    return Work(run)


STEPS = {
    "correct the reference": (correct, ("training images", "cells")),
    "choose the coreset": (rebuild, ("training images", "cells")),
    "score the lot": (score, ("training images", "cells", "lot size")),
}


def grown(step: str, settings: list[list[int]]) -> Work:
    """The outcome is CPU seconds, wall seconds and extra megabytes (NaN where the system cannot say) per setting."""

    def run() -> list[tuple[float, float, float]]:
        found = []
        for setting in settings:
            work = STEPS[step][0](*setting)
            cost, (extra, _) = timed(partial(extra_memory, work.run))
            found.append((cost.cpu_s, cost.wall_s, math.nan if extra is None else extra))
        return found

    return Work(run)


def curves(changes: dict[str, tuple[int, ...]]) -> list[Curve]:
    """One curve per step and quantity that it depends on, over CHANGES, LARGE or QUICK."""
    smallest = {name: some[0] for name, some in QUICK.items()}
    usual = USUAL if changes is CHANGES else LARGE_USUAL if changes is LARGE else smallest
    made = []
    for step, (_, depends) in STEPS.items():
        curve = {name: [tuple((usual | {name: amount}).values()) for amount in changes[name]] for name in depends}
        settings = sorted({setting for some in curve.values() for setting in some})  # the usual one lies on all curves
        _, found = measure(grown, step, settings, repeats=1, limit=7200)
        costs = {
            setting: Cost(cpu, wall, None if math.isnan(extra) else extra)
            for setting, (cpu, wall, extra) in zip(settings, found.tolist(), strict=True)
        }
        made += [Curve(step, name, changes[name], tuple(costs[one] for one in some)) for name, some in curve.items()]
    return made
