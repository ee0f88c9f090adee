"""When a file that somebody else writes is whole: once two looks in a row find it the same.

Clocks are not asked: a camera's computer may be minutes ahead or behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar

FileMark = tuple[int, int]  # bytes, and the time of the last change in nanoseconds
BETWEEN_LOOKS_S = 1.0

File = TypeVar("File")


def file_mark(path: Path) -> FileMark:
    """What changes when a file is written to."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def file_marks(paths: Iterable[Path]) -> dict[Path, FileMark]:
    """One look at the files; one that goes away meanwhile, or may not be read, is left out."""
    marks = {}
    for path in paths:
        try:
            marks[path] = file_mark(path)
        except OSError:
            continue
    return marks


def settled(marks: Mapping[File, FileMark], earlier: Mapping[File, FileMark]) -> list[File]:
    """The files that an earlier look found the same, in the order of this look."""
    return [path for path, mark in marks.items() if earlier.get(path) == mark]
