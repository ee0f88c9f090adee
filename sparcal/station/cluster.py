"""Judge many images on a Ray cluster; every node must see station and images under the same paths.

The judgements are those of `lot.stream`, in the same order and under the same paths. Ray repeats a task whose process or
node died. One that dies again and again is cut into single images, so that one deadly image takes no other with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from sparcal.calibration.thresholds import Threshold
from sparcal.errors import ArtifactError, DataError
from sparcal.ray_cluster import connected, load_ray
from sparcal.station.judgement import Judgement
from sparcal.station.lot import Lot

BLOCK = 16  # images of a task
RETRIES = 2
_WAITING_PER_CORE = 2  # tasks: enough that no core waits, few enough that memory does not grow with the images


@dataclass(frozen=True)
class LotPlace:
    """Where a worker finds the lot, and what it must find there.

    Args:
        device: a kind: each task has cards of its own, and counts them from 0.
        digest: of the station's record; `created` is the lot's.
        thresholds: that judge here, whatever is set by hand meanwhile.
    """

    station: str
    name: str | None
    weights: str | None
    device: str
    digest: str
    created: str
    thresholds: tuple[Threshold, Threshold]


def stream_on_ray(lot: Lot, paths: Sequence[Path]) -> Iterator[Judgement]:
    """The judgements of `lot.stream(paths)`, in order, computed by every core of the cluster.

    The cluster is the one that the environment variable RAY_ADDRESS names, or one that runs here, or else started here.
    """
    ray, place = load_ray(), _place(lot)
    with connected(ray):
        cards = int(place.device != "cpu")  # Ray shows a task the cards that it reserves, and no others
        task = ray.remote(num_cpus=1, num_gpus=cards, max_retries=RETRIES)(_judge_block)
        waiting: deque[tuple[Sequence[Path], Any]] = deque()
        for start in range(0, len(paths), BLOCK):
            block = paths[start : start + BLOCK]
            waiting.append((block, task.remote(place, _absolute(block))))
            if len(waiting) > _WAITING_PER_CORE * max(
                1, int(ray.cluster_resources().get("GPU" if cards else "CPU", 1))
            ):
                yield from _answers(ray, task, lot, *waiting.popleft())
        while waiting:
            yield from _answers(ray, task, lot, *waiting.popleft())


def _answers(ray: Any, task: Any, lot: Lot, block: Sequence[Path], pending: Any) -> Iterator[Judgement]:
    """The judgements of a block, under the paths that were given."""
    try:
        judged: list[Judgement] = ray.get(pending)
    except ray.exceptions.RayTaskError as error:  # it holds the worker's traceback; the sentence is in its cause
        raise error.cause from None
    except ray.exceptions.RayError as error:  # the process or the node died, as often as it was retried
        if len(block) == 1:
            yield _died(lot, block[0], type(error).__name__)
            return
        for path in block:
            yield from _answers(ray, task, lot, [path], task.remote(_place(lot), _absolute([path])))
        return
    for given, judgement in zip(block, judged, strict=True):
        reason = judgement.reason and judgement.reason.replace(str(judgement.path), str(given))
        yield replace(judgement, path=given, reason=reason)


def _died(lot: Lot, path: Path, how: str) -> Judgement:
    reason = (
        f"{path} must leave the worker alive, got a worker that died over it {RETRIES + 1} times ({how}): judge it on a "
        "machine with more memory."
    )
    limits = [threshold.value for threshold in lot.thresholds]
    return Judgement(path, None, None, limits[0], "error", limits[1], reason=reason)


def _place(lot: Lot) -> LotPlace:
    station = lot.station
    if station.record.encoder == "":
        raise DataError(
            f"A cluster needs a station whose encoder has a name, got {station.path}, which was fitted with an encoder "
            "object: judge with the local engine."
        )
    weights = None if station.weights is None else str(station.weights)
    if weights is not None and not weights.startswith("random:"):
        weights = str(Path(weights).absolute())
    where = str(station.path.absolute())
    return LotPlace(where, lot.name, weights, station.device.type, station.digest, lot.record.created, lot.thresholds)


def _absolute(paths: Sequence[Path]) -> list[Path]:
    """Workers start in folders of their own."""
    return [path.absolute() for path in paths]


def _judge_block(place: LotPlace, paths: list[Path]) -> list[Judgement]:
    """Some images, in a process of the cluster."""
    return list(_open_lot(place).stream(paths))


@lru_cache(maxsize=1)
def _open_lot(place: LotPlace) -> Lot:
    """The lot of this process: Ray reuses processes, and what they have loaded with them."""
    import torch

    from sparcal.station.station import Station

    torch.set_num_threads(1)
    station = Station.open(place.station, weights=place.weights, device=place.device)
    lot = station.own() if place.name is None else station.lot(place.name)
    if (station.digest, lot.record.created) != (place.digest, place.created):
        raise ArtifactError(
            f"Every node must see the same station at {place.station}, got another one on a node of the cluster: "
            "share the folder between the nodes."
        )
    return replace(lot, thresholds=place.thresholds)
