"""Files that are whole or absent: written under a temporary name beside the target, synced, then renamed onto it."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sparcal.errors import PlaceError
from sparcal.settings import file_path

_TEMPORARY = re.compile(
    r"\..+\.[a-z0-9_]{8}\.(\d+)\.tmp", re.DOTALL
)  # as `atomic_path` names it, with the writer's number


@contextmanager
def atomic_path(target: Path) -> Iterator[Path]:
    """A temporary path beside `target`, renamed onto it when the block ends well and removed when it does not."""
    require_file_place(target)
    require_folder(target.parent, f"The file {target.name}")
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


def require_file_place(target: Path) -> None:
    """Refuse what is no file: renaming onto a device (/dev/null) would put a file in its place, for everybody."""
    file_path(target, "The place of a file")
    if target.exists() and not target.is_file():
        raise PlaceError(
            f"A file is to be written to {target}, got a folder, device or pipe there: choose another place."
        )


def require_folder(path: Path, what: str) -> None:
    """Make a folder that may be there already; a PlaceError where something else is in its way.

    Args:
        what: needs it, to begin a sentence with.
    """
    require_folder_place(path, what)
    path.mkdir(parents=True, exist_ok=True)


def require_folder_place(path: Path, what: str) -> None:
    """The same without making it: before work whose result will lie there."""
    file_path(path, f"{what}'s folder")
    for place in (path, *path.parents):
        if place.is_dir():
            return
        if place.exists():
            raise PlaceError(f"{what} needs a folder, got the file {place}: choose another place.")
        if place.is_symlink():
            raise PlaceError(f"{what} needs a folder, got the link {place}, which leads nowhere: choose another place.")


def remove_left_behind(folder: Path) -> None:
    """Remove temporary files whose writers were killed; what a living process of this machine is writing stays."""
    for path in folder.glob(".*.tmp"):
        ours = _TEMPORARY.fullmatch(path.name)  # the folder may be anybody's
        if ours and not _lives(int(ours.group(1))):
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
