"""The greedy coreset against anomalib's KCenterGreedy, one thread each.

Both get the same projected points, made from the mixture of `speed.neighbours`, and the same start. anomalib's does one full
distance pass per member; a part of its steps is timed and the rest extrapolated, every step costing the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from sparcal.neighbours import greedy_coreset, nearest
from speed.measure import Goal, Row, Work, measure
from speed.neighbours import features

TIMED_STEPS = 50
FEW = 6000  # points on which the whole selections are compared, to a tenth
START_SEED = 7


def projected(n: int, d: int, dimension: int) -> Tensor:
    """The mixture after a random projection, as PatchCore applies before its coreset."""
    random = torch.Generator().manual_seed(1)
    axes = torch.randn(d, dimension, generator=random) / dimension**0.5
    return torch.mm(features(n, d), axes)


def first_member(n: int) -> int:
    """The start that anomalib draws from the global generator under `START_SEED`."""
    torch.manual_seed(START_SEED)
    return int(torch.randint(high=n, size=(1,)))


def coreset_ours(n: int, d: int, dimension: int, size: int) -> Work:
    points = projected(n, d, dimension)
    start = first_member(n)
    greedy_coreset(points[:2000], 20)  # compiles, or loads what was compiled before
    return Work(lambda: greedy_coreset(points, size, start=start))


def coreset_anomalib(n: int, d: int, dimension: int, size: int) -> Work:
    from anomalib.models.components.sampling import KCenterGreedy

    points = projected(n, d, dimension)

    def run(size: int = size) -> list[int]:
        # Points with a third axis are taken as they are, without a projection of its own.
        sampler = KCenterGreedy(embedding=points[:, None], sampling_ratio=1.0)
        sampler.coreset_size = size
        torch.manual_seed(START_SEED)
        return list(sampler.select_coreset_idxs())

    run(2)
    return Work(run)


def coreset_row(n: int, d: int, dimension: int, size: int, goal: Goal | None, repeats: int) -> Row:
    ours, chosen = measure(coreset_ours, n, d, dimension, size, repeats=repeats)
    steps = min(TIMED_STEPS, size - 1)
    part, first = measure(coreset_anomalib, n, d, dimension, steps + 1, repeats=1)
    peer = part.times((size - 1) / steps)
    few = min(FEW, n)
    whole = [measure(side, few, d, dimension, few // 10, repeats=1)[1] for side in (coreset_ours, coreset_anomalib)]
    drift = radius_drift(projected(few, d, dimension), *whole)
    same = np.array_equal(*whole)
    ratio = peer.cpu_s / ours.cpu_s
    extra = "" if ours.extra_mb is None else f" {ours.extra_mb:.0f} MB beside the points."
    return Row(
        path=f"Greedy coreset, {n:,} x {d} (projected to {dimension}) -> {size:,}",
        peer="anomalib KCenterGreedy",
        ours=ours,
        theirs=peer,
        measured=ratio if goal is None or not goal.at_most else ours.wall_s,
        goal=goal,
        agree=np.array_equal(chosen[: steps + 1], first) and (same or drift < 1e-5),
        agreement=f"the first {steps + 1} members are the same, and {'all' if same else 'the radius'} of {few // 10} of {few}",
        note=f"{steps} of the peer's {size - 1} steps timed, the rest extrapolated.{extra}"
        + ("" if goal is None or not goal.at_most else f" The peer takes {ratio:.0f}x the CPU time."),
    )


def radius_drift(points: Tensor, ours: Any, theirs: Any) -> float:
    """By how much the covering radius of one selection differs from that of the other, as a share of it."""
    a, b = (float(nearest(points, points[torch.as_tensor(chosen)])[0].max()) for chosen in (ours, theirs))
    return abs(a / b - 1)


def rows(*, quick: bool = False) -> list[Row]:
    """The rows of the speed table."""
    if quick:
        return [coreset_row(6000, 256, 128, 600, None, 1)]
    return [
        coreset_row(51_200, 1536, 267, 5_120, Goal(100, "less CPU time"), 3),
        coreset_row(235_200, 1024, 128, 23_520, Goal(300, "in all", " s", at_most=True), 1),
    ]
