"""A folder in which images arrive: each is handed out once, when it is whole, also after a restart."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from sparcal.errors import DataError
from sparcal.imaging.decode import content_hash
from sparcal.imaging.find import find_images

POLL_S = 1.0
SETTLED_S = 1.0  # a file that was written to this recently may not be whole yet


def arrivals(
    folder: Path,
    known: Callable[[], set[str]],
    *,
    idle_s: float | None = None,
    poll_s: float = POLL_S,
    settled_s: float = SETTLED_S,
) -> Iterator[list[Path]]:
    """Images of the folder that have not been judged, as they come, for ever.

    An image is known by its content: one that is moved or copied is not judged again, a new one of an old name is.

    Args:
        known: hashes of what has been judged; asked before each look.
        idle_s: end after this many seconds without a new image.
    """
    looked_at: dict[Path, tuple[int, int]] = {}
    last = time.monotonic()
    while idle_s is None or time.monotonic() - last <= idle_s:
        new = _new(folder, known(), looked_at, settled_s)
        if new:
            yield new
            last = time.monotonic()
        else:
            time.sleep(poll_s)


def _new(folder: Path, known: set[str], looked_at: dict[Path, tuple[int, int]], settled_s: float) -> list[Path]:
    try:
        found = find_images(folder)
    except DataError:  # nothing has arrived yet
        return []
    new: list[Path] = []
    for path in found:
        try:
            state = path.stat()
            mark = (state.st_mtime_ns, state.st_size)
            if looked_at.get(path) == mark or time.time() - state.st_mtime < settled_s:
                continue
            digest = content_hash(path)
        except OSError:  # it went away, or cannot be read yet; the next look will tell
            continue
        looked_at[path] = mark
        if digest not in known:
            known.add(digest)
            new.append(path)
    return new
