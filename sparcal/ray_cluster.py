"""A connection to a Ray cluster, for whatever shares its work among machines."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sparcal.errors import DataError, MissingExtraError


def load_ray() -> Any:
    """The package ray, or one sentence on how to get it."""
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError(
            "--engine ray needs Ray, which is not installed: run pip install 'sparcal[ray]'."
        ) from error
    return ray


@contextmanager
def connected(ray: Any, *, address: str | None = None, cpus: int | None = None) -> Iterator[None]:
    """A connection to a cluster, closed at the end unless it was there before.

    Args:
        address: of a running cluster, "auto" to find it; None takes the one that RAY_ADDRESS names or starts one here.
        cpus: size of a cluster that is started here; all of this machine unless given.
    """
    if ray.is_initialized():
        yield
        return
    address = address or os.environ.get("RAY_ADDRESS")
    size: dict[str, Any] = {"include_dashboard": False, "num_cpus": cpus} if address is None else {"address": address}
    try:
        ray.init(log_to_driver=False, configure_logging=False, **size)
    except (ConnectionError, RuntimeError, ValueError) as error:
        cluster, reason = "a cluster" if address is None else f"the cluster {address}", " ".join(str(error).split())
        raise DataError(f"--engine ray needs {cluster} that can be reached, got: {reason}") from error
    try:
        yield
    finally:
        ray.shutdown()
