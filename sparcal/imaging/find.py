"""Which images are meant: the files that a path, a folder or a pattern names, and images in memory as they are."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from sparcal.errors import DataError
from sparcal.imaging.decode import ImageSource, no_image
from sparcal.settings import file_path

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp"})


def find_images(source: Path | str | Sequence[Path | str]) -> list[Path]:
    """The image files that a path, a folder, a glob pattern or a sequence of them names.

    Folders are searched to any depth and sorted; hidden files and files without an image suffix are passed over.
    A file that is named outright is taken whatever its suffix, because images are opened by content.
    """
    if isinstance(source, Path | str):
        file_path(source, "What names images")
    if not isinstance(source, Path | str):
        images = [path for part in source for path in find_images(part)]
    elif Path(source).is_dir():
        images = images_in(Path(source))
    elif Path(source).exists():
        return [Path(source)]
    elif glob.has_magic(str(source)):
        matches = [Path(match) for match in glob.glob(str(source), recursive=True)]
        inside = {path for folder in matches if folder.is_dir() for path in images_in(folder)}
        images = sorted(inside | {path for path in matches if path.is_file() and _looks_like_image(path.name)})
    else:
        raise DataError(f"Images must be a file, a folder or a glob pattern, got {source}, which does not exist.")
    if not images:
        raise DataError(
            f"Images must hold at least one file ending in {', '.join(sorted(SUFFIXES))}, got none in {source}."
        )
    return images


def images_in(folder: Path) -> list[Path]:
    """The image files of a folder, at any depth, sorted; none is an answer too.

    A folder that cannot be read is a DataError: what lies in it must not be left out without a word.
    """
    return sorted(_walk(folder))


def _walk(folder: Path) -> Iterator[Path]:
    def refused(error: OSError) -> None:
        where = Path(error.filename)
        if where != folder and isinstance(error, FileNotFoundError):
            return  # it went away while the folder above it was read
        raise DataError(
            f"The folder {where} must be readable, got {error.strerror}: check that it is there, and its permissions."
        ) from error

    visited: set[str] = set()
    for root, folders, files in os.walk(folder, followlinks=True, onerror=refused):
        real = os.path.realpath(root)
        if real in visited:  # a link that leads back into a folder above it
            folders.clear()
            continue
        visited.add(real)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(root, name) for name in files if _looks_like_image(name))


def _looks_like_image(name: str) -> bool:
    return not name.startswith(".") and Path(name).suffix.lower() in SUFFIXES


def image_sources(images: ImageSource | Sequence[ImageSource]) -> Sequence[ImageSource]:
    """One entry per image: the files that paths, folders and patterns name, and images in memory as they are."""
    if isinstance(images, np.ndarray) and images.ndim == 4:
        images = list(images)
    if isinstance(images, np.ndarray | Image.Image | bytes):
        images = [images]
    if isinstance(images, Path | str):
        return find_images(images)
    if not isinstance(images, Iterable) or hasattr(images, "permute"):
        raise no_image(images)
    sources: list[ImageSource] = []
    for item in images:
        if not isinstance(item, Path | str | bytes | np.ndarray | Image.Image):
            raise no_image(item)
        sources.extend(find_images(item) if isinstance(item, Path | str) else [item])
    if not sources:
        raise DataError("Encoding needs at least one image, got an empty sequence.")
    return sources
