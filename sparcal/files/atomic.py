"""Files that are whole or absent: written under a temporary name beside the target, synced, then renamed onto it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sparcal.errors import DataError


@contextmanager
def atomic_path(target: Path) -> Iterator[Path]:
    """A temporary path beside `target`, renamed onto it when the block ends well and removed when it does not.

    A DataError where `target` is no file: renaming onto a device (/dev/null) would put a file in its place, for everybody.
    """
    if target.exists() and not target.is_file():
        raise DataError(
            f"A file is to be written to {target}, got a folder, device or pipe there: choose another place."
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=f".{os.getpid()}.tmp", dir=target.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        settle(temporary, 0o666 & ~_umask())  # mkstemp makes files private; a station is shared by a line
        temporary.replace(target)
        sync_folder(target.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def require_folder(path: Path, what: str) -> None:
    """Make a folder that may be there already; a DataError where it, or one that it lies in, is a file.

    Args:
        what: needs it, to begin a sentence with.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        file = next(place for place in (path, *path.parents) if place.exists() and not place.is_dir())
        raise DataError(f"{what} needs a folder, got the file {file}: choose another place.") from error


def remove_left_behind(folder: Path) -> None:
    """Remove temporary files whose writers were killed; what a living process of this machine is writing stays."""
    for path in folder.glob(".*.tmp"):
        writer = path.suffixes[-2].removeprefix(".") if len(path.suffixes) > 1 else ""
        if writer.isdigit() and not _lives(int(writer)):
            path.unlink(missing_ok=True)


@contextmanager
def passing_folder(parent: Path, name: str) -> Iterator[Path]:
    """A temporary folder that vanishes with the block; those that killed writers left behind vanish before it."""
    for left in parent.glob(f".{name}-*"):
        writer = left.name.split("-")[-2]
        if writer.isdigit() and not _lives(int(writer)):
            shutil.rmtree(left, ignore_errors=True)
    made = Path(tempfile.mkdtemp(prefix=f".{name}-{os.getpid()}-", dir=parent))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def settle(path: Path, mode: int) -> None:
    """Make sure that the file is on the disk, with these permissions."""
    with path.open("rb") as stream:
        os.fsync(stream.fileno())
    path.chmod(mode)


def sync_folder(folder: Path) -> None:
    """Make sure that the folder's entries are on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
