"""AU-PRO of 100 maps of 1024 x 1024 against anomalib's: CPU seconds and extra memory, one thread each.

Ours computes the limits 0.3 and 0.05 at once; the peer, which needs a full run for each, is timed at 0.3 only. The
second limit is compared on a few images. Extra memory is the rise of the peak above the inputs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from speed.measure import Goal, Row, Work, measure

LIMITS = (0.3, 0.05)
TOLERANCE = 1e-6
FEW = 4


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


def ours(n: int, size: int) -> Work:
    from sparcal.bench.metrics import aupro

    aupro(*scene(2, 64), LIMITS)
    masks, maps = scene(n, size)
    return Work(lambda: aupro(masks, maps, LIMITS))


def anomalib(n: int, size: int, limit: float) -> Work:
    import cv2
    import torch
    from anomalib.metrics.aupro import _AUPRO  # the metric itself, without the wrapper that unpacks batches

    cv2.setNumThreads(1)
    masks, maps = scene(n, size)

    def run() -> float:
        metric = _AUPRO(fpr_limit=limit)
        for mask, score_map in zip(masks, maps, strict=True):
            metric.update(torch.from_numpy(score_map)[None], torch.from_numpy(mask)[None])
        return float(metric.compute())

    return Work(run)


def rows(*, quick: bool = False) -> list[Row]:
    """The rows of the speed table."""
    n, size = (10, 256) if quick else (100, 1024)
    mine, values = measure(ours, n, size, repeats=3)
    peer, value = measure(anomalib, n, size, LIMITS[0], repeats=1)
    few = [float(measure(anomalib, FEW, size, limit, repeats=1)[1]) for limit in LIMITS]
    difference = float(np.abs(np.array([values[0], *measure(ours, FEW, size, repeats=1)[1]]) - [value, *few]).max())
    time = Row(
        path=f"AU-PRO, {n} x {size} x {size}",
        peer="anomalib AUPRO",
        ours=mine,
        theirs=peer,
        measured=peer.cpu_s / mine.cpu_s,
        goal=Goal(15, "less CPU time"),
        agree=difference <= TOLERANCE,
        agreement=f"largest difference {difference:.0e}, over both limits",
        note="Ours yields two limits in that time, the peer one.",
    )
    if mine.extra_mb is None or peer.extra_mb is None:
        return [time]
    less = peer.extra_mb / max(mine.extra_mb, 2**-8)  # at least one page
    note = f"{mine.extra_mb:.1f} MB against {peer.extra_mb:.0f} MB."
    return [
        time,
        replace(time, path=f"{time.path}: extra memory", measured=less, goal=Goal(5, "less memory"), note=note),
    ]
