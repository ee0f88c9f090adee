"""A folder in which images arrive: each is handed out once, when it is whole, also after a restart."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sparcal.errors import DataError
from sparcal.files.hashing import file_digest
from sparcal.files.settled import BETWEEN_LOOKS_S, FileMark, file_marks, settled
from sparcal.imaging.find import find_images, images_in


@dataclass(frozen=True)
class Look:
    """What one look at a watched folder found.

    Args:
        new: images that are whole and have not been judged.
        away: one sentence while the folder cannot be read; None while it can.
    """

    new: tuple[Path, ...]
    away: str | None


def looks(
    folder: Path,
    known: Callable[[], set[str]],
    *,
    leave_out: Callable[[Path], bool] | None = None,
    idle_s: float | None = None,
    poll_s: float = BETWEEN_LOOKS_S,
) -> Iterator[Look]:
    """Look at the folder again and again, for ever; each look hands out the images that have not been judged.

    An image is known by its content: a moved or copied one is not judged again; new content under an old name is.

    Args:
        known: hashes of what has been judged; asked before each look.
        leave_out: files that are never handed out.
        idle_s: end after this many seconds in which no image came and none was being written.
    """
    earlier: dict[Path, FileMark] = {}
    waiting = _Waiting()
    last = time.monotonic()
    while True:
        marks, away = _look(folder)
        if leave_out is not None:
            marks = {path: mark for path, mark in marks.items() if not leave_out(path)}
        new = waiting.take(settled(marks, earlier), marks, known())
        yield Look(tuple(new), away)
        if new or any(earlier.get(path) != mark for path, mark in marks.items()):
            last = time.monotonic()
        elif idle_s is not None and time.monotonic() - last > idle_s:
            return
        earlier = marks
        if not new:
            time.sleep(poll_s)


class _Waiting:
    """Which of the whole files have not been handed out."""

    def __init__(self) -> None:
        self._handed_out: dict[Path, FileMark] = {}
        self._unreadable: dict[Path, FileMark] = {}

    def take(self, whole: list[Path], marks: dict[Path, FileMark], judged: set[str]) -> list[Path]:
        new = []
        for path in whole:
            if self._handed_out.get(path) == marks[path]:
                continue
            try:
                digest = file_digest(path)
            except FileNotFoundError:  # it went away: the next look tells
                continue
            except OSError:  # handed out once, so that somebody hears of it; again when it can be read
                if self._unreadable.get(path) != marks[path]:
                    self._unreadable[path] = marks[path]
                    new.append(path)
                continue
            self._handed_out[path] = marks[path]
            if digest not in judged:
                judged.add(digest)
                new.append(path)
        return new


def _look(folder: Path) -> tuple[dict[Path, FileMark], str | None]:
    """The images of a folder and their marks, and a sentence where it cannot be read."""
    try:
        return file_marks(images_in(folder)), None
    except DataError as error:
        return {}, str(error)


def image_marks(folder: Path) -> dict[Path, FileMark]:
    """The images of a folder and their marks; none while it is empty or away."""
    try:
        return file_marks(find_images(folder))
    except DataError:
        return {}
