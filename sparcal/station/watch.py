"""A folder in which images arrive: each is handed out once, when it is whole, also after a restart."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from sparcal.errors import DataError
from sparcal.files.hashing import file_digest
from sparcal.files.settled import BETWEEN_LOOKS_S, FileMark, file_marks, settled
from sparcal.imaging.find import find_images


def arrivals(
    folder: Path, known: Callable[[], set[str]], *, idle_s: float | None = None, poll_s: float = BETWEEN_LOOKS_S
) -> Iterator[list[Path]]:
    """Images of the folder that have not been judged, as they come, for ever.

    An image is known by its content: a moved or copied one is not judged again; new content under an old name is.

    Args:
        known: hashes of what has been judged; asked before each look.
        idle_s: end after this many seconds in which no image came and none was being written.
    """
    earlier: dict[Path, FileMark] = {}
    handed_out: dict[Path, FileMark] = {}
    last = time.monotonic()
    while True:
        marks = image_marks(folder)
        judged, new = known(), []
        for path in settled(marks, earlier):
            if handed_out.get(path) == marks[path] or (digest := _digest(path)) is None:
                continue
            handed_out[path] = marks[path]
            if digest not in judged:
                judged.add(digest)
                new.append(path)
        if new:
            yield new
        if new or any(earlier.get(path) != mark for path, mark in marks.items()):
            last = time.monotonic()
        elif idle_s is not None and time.monotonic() - last > idle_s:
            return
        earlier = marks
        if not new:
            time.sleep(poll_s)


def image_marks(folder: Path) -> dict[Path, FileMark]:
    """The images of a folder and their marks; none while it is empty or away."""
    try:
        return file_marks(find_images(folder))
    except DataError:
        return {}


def _digest(path: Path) -> str | None:
    try:
        return file_digest(path)
    except OSError:  # it went away, or may not be read yet: the next look tells
        return None
