"""Room on the disk: how a full one is told, and a reserve that lets people make room even then."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from sparcal.files.full_disk import says_full

LEAST_FREE = 32 * 2**20  # below this nothing new is begun
RESERVE = 16 * 2**20

Answer = TypeVar("Answer")


def is_full(error: BaseException) -> bool:
    """Whether an error says that the disk is full."""
    if isinstance(error, sqlite3.OperationalError):
        return error.sqlite_errorcode == sqlite3.SQLITE_FULL
    return says_full(error)


def has_room(folder: Path) -> bool:
    """Whether there is enough free space to begin something."""
    return shutil.disk_usage(folder).free >= LEAST_FREE


@dataclass(frozen=True)
class Reserve:
    """A file that takes up space until it is needed: even to forget images, the database must write a little."""

    folder: Path

    def keep(self) -> None:
        """Set the space aside again, if there is some."""
        if self._path.exists() or shutil.disk_usage(self.folder).free < RESERVE + LEAST_FREE:
            return
        handle = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.posix_fallocate(handle, 0, RESERVE)
        except OSError:  # somebody was faster, or the file system cannot
            self._path.unlink(missing_ok=True)
        finally:
            os.close(handle)

    def use(self, work: Callable[[], Answer]) -> Answer:
        """Do something that makes room; on a full disk, do it in the space that was set aside."""
        try:
            return work()
        except (OSError, sqlite3.OperationalError) as error:
            if not is_full(error):
                raise
            self._path.unlink(missing_ok=True)
            return work()
        finally:
            self.keep()

    @property
    def _path(self) -> Path:
        return self.folder / "reserve"
