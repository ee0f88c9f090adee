"""Images of good parts that are kept beside a station or a lot, so that its self-test can be run again at any time.

A file is copied as it is, so that its pixels stay exactly the same; an image that came from memory is kept as PNG, packed
lightly: all of that format's effort would save an eighth of the room and take four times as long.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from sparcal.files.hashing import file_digest
from sparcal.files.verified import CALIBRATE_AGAIN, verified
from sparcal.imaging.decode import ImageSource, open_image

PREFIX = "part-"
PNG_EFFORT = 1  # of 9


def keep_images(folder: Path, sources: Sequence[ImageSource]) -> dict[str, str]:
    """Copy images into a folder; returns the SHA-256 of each, under its name, in order."""
    kept: dict[str, str] = {}
    for number, source in enumerate(sources):
        if isinstance(source, Path | str):
            name = f"{PREFIX}{number:03d}{Path(source).suffix.lower()}"
            shutil.copyfile(source, folder / name)
        else:
            name = f"{PREFIX}{number:03d}.png"
            open_image(source).save(folder / name, format="PNG", compress_level=PNG_EFFORT)
        kept[name] = file_digest(folder / name)
    return kept


def kept_images(folder: Path, files: Mapping[str, str]) -> list[Path]:
    """The images that were kept, in order, each checked against its digest.

    Args:
        files: SHA-256 of each file, as the record has them; other files than kept images are passed over.
    """
    paths = []
    for name, digest in sorted(files.items()):
        if not name.startswith(PREFIX):
            continue
        paths.append(verified(folder / name, digest, remedy=CALIBRATE_AGAIN))
    return paths
