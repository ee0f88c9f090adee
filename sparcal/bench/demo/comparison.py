"""The comparison behind `sparcal demo`: rendered parts, a shifted lot, and each correction on the same images.

Every seed has its own parts and its own draw of calibration normals. Within a seed all corrections see the same
features, the same held-out parts and the same random streams of the detector, so differences are paired.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from threading import Event
from typing import get_args

import numpy as np
import torch
from numpy.typing import NDArray

from sparcal.bench.metrics import METRICS, paper_metrics
from sparcal.corrections import CORRECTIONS
from sparcal.devices import AUTO_DEVICE
from sparcal.errors import DataError
from sparcal.hosts import HOSTS, load_host
from sparcal.imaging.encode import encode
from sparcal.imaging.maps import native_map, outside_value
from sparcal.imaging.preprocess import Geometry
from sparcal.rendering.parts import DemoSet, Part, Shift, make_demo
from sparcal.score import score_lot
from sparcal.settings import one_of, texts, whole_number, whole_numbers
from sparcal.types import Detector, Encoder, Features, Scores

DemoRow = dict[str, str | int | float]

BASE = "base"
COMPARED = (BASE, "normals", "mean-only", "global-subspace", "sparc", "sparc-recentred")
CONTRASTED = (BASE, "sparc", "sparc-recentred")


@dataclass(frozen=True)
class Plan:
    """What is compared.

    Args:
        ks: calibration sizes, each 2 to 8.
        shift: how the lot differs from the training parts; see `sparcal.rendering.parts.make_demo`.
        train, good, bad: parts per seed; calibration normals are drawn from the good ones.
    """

    ks: tuple[int, ...] = (8,)
    shift: Shift = "lights"
    seeds: int = 5
    hosts: tuple[str, ...] = ("patchcore", "padim")
    corrections: tuple[str, ...] = COMPARED
    train: int = 28
    good: int = 28
    bad: int = 24

    def __post_init__(self) -> None:
        whole_numbers(self.ks, "Plan.ks", some=False)
        for name in ("seeds", "train", "good", "bad"):
            whole_number(getattr(self, name), f"Plan.{name}", least=1)
        for name in ("hosts", "corrections"):
            texts(getattr(self, name), f"Plan.{name}")
        if not self.ks or not all(2 <= k <= 8 for k in self.ks):
            raise DataError(f"The demonstration takes k of 2 to 8, got {', '.join(map(str, self.ks)) or 'none'}.")
        one_of(self.shift, "The shift", get_args(Shift))


@dataclass(frozen=True, eq=False)
class Shown:
    """One held-out part with its native-size score map under each correction."""

    part: Part
    maps: dict[str, NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class Demonstration:
    """All rows, and the first seed's pictures of the first host at the largest k."""

    plan: Plan
    rows: list[DemoRow]
    parts: DemoSet
    shown: list[Shown]


def run_demonstration(
    plan: Plan,
    *,
    workers: int = 1,
    device: str = AUTO_DEVICE,
    runtime: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Demonstration:
    """Compare the plan's corrections for its hosts, over its seeds, on the bundled encoder.

    Args:
        workers: seeds that run at once, in threads; torch should then use one thread each.
        device: where encoder and detectors compute.
        runtime: what computes the encoder; see `load_encoder`.
    """
    pace = _Pace(plan.seeds * len(plan.hosts) * len(plan.ks) * len(plan.corrections), progress)
    pairs = [
        (HOSTS[name].detector, *load_host(name, encoder="bundled", device=device, runtime=runtime))
        for name in plan.hosts
    ]
    with ThreadPoolExecutor(workers) as pool:
        try:
            runs = list(pool.map(lambda seed: _run_seed(plan, seed, pairs, pace), range(plan.seeds)))
        except BaseException:
            pace.stopped.set()
            raise
    return Demonstration(plan, [row for run in runs for row in run.rows], runs[0].parts, runs[0].shown)


class _Pace:
    """How far all seeds have come; a seed takes half a minute, and Ctrl-C waits for the step under way at most."""

    def __init__(self, total: int, progress: Callable[[int, int], None] | None) -> None:
        self.stopped = Event()
        self._total, self._progress, self._done = total, progress, count(1)

    def check(self) -> None:
        """Leave here if somebody has stopped the work."""
        if self.stopped.is_set():
            raise CancelledError

    def step(self) -> None:
        """One more row is done."""
        self.check()
        if self._progress is not None:
            self._progress(next(self._done), self._total)


def _run_seed(plan: Plan, seed: int, pairs: list[tuple[str, Encoder, Detector]], pace: _Pace) -> Demonstration:
    """All rows of one seed, and the pictures of its first host at the largest k."""
    parts = make_demo(seed, train=plan.train, good=plan.good, bad=plan.bad, shift=plan.shift)
    rows: list[DemoRow] = []
    shown: list[Shown] = []
    for name, encoder, detector in pairs:
        pace.check()
        lot = _Lot.encode(encoder, parts)
        for k in plan.ks:
            calibration, held_out = draw(plan.good, k, seed)
            evaluated = [parts.lot_good[i] for i in held_out] + parts.lot_bad
            maps: dict[str, list[NDArray[np.float32]]] = {}
            for correction in plan.corrections:
                scores = lot.score(detector, correction, calibration, held_out)
                maps[correction] = lot.maps(detector, scores)
                regions = zip((part.mask for part in evaluated), maps[correction], strict=True)
                measured = paper_metrics([bool(part.mask.any()) for part in evaluated], scores.image, regions)
                rows.append({"detector": name, "correction": correction, "k": k, "seed": seed, **measured})
                pace.step()
            if not shown and k == max(plan.ks):
                shown = _choose(evaluated, maps)
    return Demonstration(plan, rows, parts, shown)


def draw(good: int, k: int, seed: int) -> tuple[list[int], list[int]]:
    """Which good parts calibrate, and which are held out: a function of the numbers alone."""
    order = np.random.default_rng([seed, k]).permutation(good)
    return sorted(int(i) for i in order[:k]), sorted(int(i) for i in order[k:])


def summarise(rows: Sequence[DemoRow]) -> list[DemoRow]:
    """Mean over seeds of each metric, and the mean paired change of AU-PRO 0.3 against base."""
    groups: dict[tuple[str, int, str], list[DemoRow]] = {}
    for row in rows:
        groups.setdefault((str(row["detector"]), int(row["k"]), str(row["correction"])), []).append(row)
    table: list[DemoRow] = []
    for (detector, k, correction), group in groups.items():
        means = {name: float(np.mean([float(row[name]) for row in group])) for name in METRICS}
        base = groups.get((detector, k, BASE), group)
        pairs = zip(group, base, strict=True)
        change = float(np.mean([float(row["aupro_0.3"]) - float(other["aupro_0.3"]) for row, other in pairs]))
        change = round(change, 6) + 0.0  # what rounding of floats leaves is no change, and none is not minus nothing
        table.append({"detector": detector, "k": k, "correction": correction, **means, "change of aupro_0.3": change})
    return table


@dataclass(frozen=True, eq=False)
class _Lot:
    """The features of one seed's parts by one encoder."""

    train: Features
    good: Features
    bad: Features
    geometry: Geometry

    @classmethod
    def encode(cls, encoder: Encoder, parts: DemoSet) -> _Lot:
        train, good, bad = (
            encode(encoder, [part.image for part in group]) for group in (parts.train, parts.lot_good, parts.lot_bad)
        )
        return cls(train.features, good.features, bad.features, good.geometries[0])  # all parts have one size

    def score(self, detector: Detector, name: str, calibration: list[int], held_out: list[int]) -> Scores:
        correction = CORRECTIONS["identity" if name == BASE else name]()
        test = Features.cat([self.good[held_out], self.bad])
        with torch.inference_mode():
            scores = score_lot(
                detector, test, reference=self.train, calibration=self.good[calibration], correction=correction
            )
        return Scores(scores.image.cpu(), scores.cell.cpu())

    def maps(self, detector: Detector, scores: Scores) -> list[NDArray[np.float32]]:
        outside = outside_value(scores.cell)
        return [native_map(cell, detector.map_rule, self.geometry, outside=outside) for cell in scores.cell]


def _choose(evaluated: list[Part], maps: dict[str, list[NDArray[np.float32]]]) -> list[Shown]:
    """The first held-out good part, then the first part with each kind of defect: no choice by result."""
    seen: dict[str | None, int] = {}
    for position, part in enumerate(evaluated):
        seen.setdefault(part.defect, position)
    return [Shown(evaluated[i], {name: group[i] for name, group in maps.items()}) for i in seen.values()]
