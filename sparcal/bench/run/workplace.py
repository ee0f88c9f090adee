"""Where a run finds its data and how its machine computes: what a unit needs but does not name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from sparcal.bench.run.cache import Precision
from sparcal.errors import DataError


@dataclass(frozen=True)
class Workplace:
    """Paths and resources, the same for all units of a run; every process of a cluster must see the paths.

    Args:
        data: the root of each dataset's copy.
        results: the folder of finished units.
        cache: the folder of features.
        cache_limit: bytes that the cache may hold; None for no limit.
        precision: of cached features.
        device: where features and scores are computed, in torch's words.
        threads: compute threads of each process.
    """

    data: Mapping[str, str]
    results: str
    cache: str
    cache_limit: int | None = None
    precision: Precision = "float32"
    device: str = "cpu"
    threads: int = 1

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise DataError(f"A process needs at least 1 thread, got {self.threads}.")

    def root(self, dataset: str) -> Path:
        """The copy of a dataset."""
        if dataset not in self.data:
            raise DataError(
                f"The copy of {dataset} must be named, got {', '.join(self.data) or 'none'}: give --data {dataset}=FOLDER."
            )
        return Path(self.data[dataset])

    def to_json(self) -> dict[str, object]:
        """Plain values, for other processes."""
        return {**asdict(self), "data": dict(self.data)}


@contextmanager
def thread_budget(count: int) -> Iterator[None]:
    """Give this process `count` compute threads while the block runs."""
    import cv2
    import torch
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    before = torch.get_num_threads(), cv2.getNumThreads()
    torch.set_num_threads(count)
    cv2.setNumThreads(count)
    try:
        with threadpool_limits(limits=count):
            yield
    finally:
        torch.set_num_threads(before[0])
        cv2.setNumThreads(before[1])
