"""One writer at a time: an advisory lock on a file, which the system releases when its holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sparcal.errors import BusyError

LOCK_WAIT_S = 30.0
_POLL_S = 0.02


@contextmanager
def exclusive(path: Path, *, wait_s: float = LOCK_WAIT_S) -> Iterator[None]:
    """Hold the lock file `path` while the block runs.

    Args:
        wait_s: how long to wait for another holder before a BusyError.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        _acquire(handle, path, wait_s)
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)  # and with it the lock; the file stays, because removing it would let two holders in


def _acquire(handle: int, path: Path, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                holder = os.pread(handle, 32, 0).decode(errors="replace").strip() or "unknown"
                raise BusyError(
                    f"{path.parent} can be written by one process at a time, got held by process {holder} for more "
                    f"than {wait_s:g} s: wait until that one has finished, and try again."
                ) from None
            time.sleep(_POLL_S)
