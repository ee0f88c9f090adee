"""A full disk, told in one sentence, whichever library was writing when it filled up."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sparcal.errors import FullDiskError
from sparcal.files.amounts import amount

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


def says_full(error: BaseException) -> bool:
    """Whether an error says that there is no room left on the disk."""
    if isinstance(error, OSError):
        return error.errno in NO_ROOM
    return any(f"(os error {number})" in str(error) for number in NO_ROOM)  # safetensors has it in the text only


@contextmanager
def needs_room(place: Path) -> Iterator[None]:
    """Writing to a place: a full disk becomes a FullDiskError that says what to do."""
    try:
        yield
    except FullDiskError:
        raise
    except Exception as error:
        if not says_full(error):
            raise
        raise FullDiskError(
            f"{place} needs more free space on its disk, got {_free(place)} free: make room and do the same again; what was "
            "there before is unchanged."
        ) from error


def _free(place: Path) -> str:
    try:
        return amount(shutil.disk_usage(place).free)
    except OSError:  # the disk itself has gone
        return "nothing"
