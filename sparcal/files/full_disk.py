"""A full disk, told in one sentence, whichever library was writing when it filled up."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sparcal.errors import FullDiskError

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


def require_free_room(place: Path, needed: int, what: str, remedy: str) -> None:
    """Raise FullDiskError, before any work, where `needed` bytes are more than the disk of `place` has free.

    Args:
        place: a file or folder that need not exist yet.
        what: needs them.
        remedy: what to do instead of making room.
    """
    at = next(folder for folder in (place.absolute(), *place.absolute().parents) if folder.exists())
    free = shutil.disk_usage(at).free
    if needed > free:
        from sparcal.files.amounts import amount

        raise FullDiskError(
            f"{what} needs about {amount(needed)} at {place}, got {amount(free)} free: make room, or {remedy}."
        )


def _free(place: Path) -> str:
    from sparcal.files.amounts import amount

    try:
        return amount(shutil.disk_usage(place).free)
    except OSError:  # the disk itself has gone
        return "nothing"
