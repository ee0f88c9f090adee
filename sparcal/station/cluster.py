"""Judge many images on a Ray cluster, with one loaded station per worker; stations and images are shared by path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sparcal.errors import MissingExtraError
from sparcal.station.lot import Judgement, Lot

BLOCK = 16  # images per message


def stream_on_ray(lot: Lot, paths: Sequence[Path]) -> Iterator[Judgement]:
    """The judgements of `lot.stream(paths)`, in order, computed by every core of the cluster."""
    try:
        import ray
        from ray.util import ActorPool
    except ImportError as error:
        raise MissingExtraError(
            "--engine ray needs Ray, which is not installed: pip install 'sparcal[ray]'."
        ) from error
    if not ray.is_initialized():
        ray.init(log_to_driver=False, include_dashboard=False)
    blocks = [[path.absolute() for path in paths[i : i + BLOCK]] for i in range(0, len(paths), BLOCK)]
    workers = min(len(blocks), max(1, int(ray.cluster_resources().get("CPU", 1))))
    actor = ray.remote(num_cpus=1)(_Judge)
    pool = ActorPool([actor.remote(lot.station.path.absolute(), lot.name) for _ in range(workers)])
    for judged in pool.map(lambda worker, block: worker.judge.remote(block), blocks):
        yield from judged


class _Judge:
    """A station opened once in a worker process."""

    def __init__(self, station: Path, name: str | None) -> None:
        import torch

        from sparcal.station.station import Station

        torch.set_num_threads(1)
        opened = Station.open(station)
        self.lot: Any = opened.own() if name is None else opened.lot(name)

    def judge(self, paths: list[Path]) -> list[Judgement]:
        return list(self.lot.stream(paths))
