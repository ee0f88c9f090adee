"""Files to tensors to features: which files are meant, read in batches ahead of the encoder, bad ones reported.

How a file is decoded is in `sparcal.imaging.decode`, how an image becomes an input in `sparcal.imaging.preprocess`; their public
names are here too.
"""

from __future__ import annotations

import glob
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from sparcal.errors import DataError
from sparcal.imaging.decode import ImageSource, open_image
from sparcal.imaging.preprocess import Geometry, Preprocess
from sparcal.types import Encoder, Features

__all__ = [
    "Batch",
    "Encoded",
    "Failure",
    "Geometry",
    "ImageSource",
    "Preprocess",
    "encode",
    "find_images",
    "image_sources",
    "load_batches",
    "open_image",
]

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp"})


def find_images(source: Path | str | Sequence[Path | str]) -> list[Path]:
    """The image files that a path, a folder, a glob pattern or a sequence of them names.

    Folders are searched to any depth and sorted; hidden files and files without an image suffix are passed over.
    A file that is named outright is taken whatever its suffix, because images are opened by content.
    """
    if not isinstance(source, Path | str):
        found = [path for part in source for path in find_images(part)]
    elif Path(source).is_dir():
        found = sorted(_walk(Path(source)))
    elif Path(source).exists():
        return [Path(source)]
    elif glob.has_magic(str(source)):
        matches = [Path(match) for match in glob.glob(str(source), recursive=True)]
        inside = {path for folder in matches if folder.is_dir() for path in _walk(folder)}
        found = sorted(inside | {path for path in matches if path.is_file() and _looks_like_image(path.name)})
    else:
        raise DataError(f"Images must be a file, a folder or a glob pattern, got {source}, which does not exist.")
    if not found:
        raise DataError(
            f"Images must hold at least one file ending in {', '.join(sorted(SUFFIXES))}, got none in {source}."
        )
    return found


def _walk(folder: Path) -> Iterator[Path]:
    seen: set[str] = set()
    for root, folders, files in os.walk(folder, followlinks=True):
        real = os.path.realpath(root)
        if real in seen:  # a link that leads back into a folder above it
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(root, name) for name in files if _looks_like_image(name))


def _looks_like_image(name: str) -> bool:
    return not name.startswith(".") and Path(name).suffix.lower() in SUFFIXES


@dataclass(frozen=True)
class Failure:
    """An image that could not be used, and one sentence why."""

    path: Path
    reason: str


@dataclass(frozen=True, eq=False)
class Batch:
    """The usable ones among consecutive images, `pixels` (n, 3, H, W), and what failed among them."""

    pixels: Tensor
    geometries: list[Geometry]
    paths: list[Path]
    failures: list[Failure]


def load_batches(
    paths: Sequence[ImageSource], preprocess: Preprocess, *, batch_size: int = 16, workers: int = 2
) -> Iterator[Batch]:
    """Read and preprocess images in order, one batch ahead of the consumer.

    A batch stands for the next `batch_size` images; those that fail are listed in it and may leave it empty.

    Args:
        paths: files, or images in memory, which are called `image-<position>`.
        workers: threads that decode.
    """
    for name, value in (("batch_size", batch_size), ("workers", workers)):
        if value < 1:
            raise DataError(f"load_batches needs {name} of at least 1, got {value}.")
    return _read_ahead(paths, preprocess, batch_size, workers)


def _read_ahead(
    sources: Sequence[ImageSource], preprocess: Preprocess, batch_size: int, workers: int
) -> Iterator[Batch]:
    pool = ThreadPoolExecutor(workers, thread_name_prefix="sparcal-read")
    try:
        jobs = (pool.submit(_load, source, _name(source, i), preprocess) for i, source in enumerate(sources))
        running = deque(islice(jobs, max(batch_size, 2 * workers)))
        shape: torch.Size | None = None
        while running:
            loaded = []
            for _ in range(min(batch_size, len(running))):
                loaded.append(running.popleft().result())
                running.extend(islice(jobs, 1))
            shape = shape or next((item.pixels.shape for item in loaded if isinstance(item, _Loaded)), None)
            yield _collect(loaded, shape)
    finally:
        pool.shutdown(cancel_futures=True)


@dataclass(frozen=True, eq=False)
class _Loaded:
    path: Path
    pixels: Tensor
    geometry: Geometry


def _load(source: ImageSource, path: Path, preprocess: Preprocess) -> _Loaded | Failure:
    try:
        pixels, geometry = preprocess(open_image(source))
    except DataError as error:
        return Failure(path, str(error))
    return _Loaded(path, pixels, geometry)


def _collect(loaded: list[_Loaded | Failure], shape: torch.Size | None) -> Batch:
    good: list[_Loaded] = []
    failures: list[Failure] = []
    for item in loaded:
        if isinstance(item, Failure):
            failures.append(item)
        elif item.pixels.shape != shape:
            failures.append(Failure(item.path, _other_size(item, shape)))
        else:
            good.append(item)
    pixels = torch.stack([item.pixels for item in good]) if good else torch.empty(0, *(shape or (3, 0, 0)))
    return Batch(pixels, [item.geometry for item in good], [item.path for item in good], failures)


def _other_size(item: _Loaded, shape: torch.Size | None) -> str:
    got, native = tuple(item.pixels.shape[1:]), item.geometry.native
    expected = tuple(shape[1:]) if shape is not None else ()
    return (
        f"{item.path} must give an input of {expected} like the first image, got {got} from {native} pixels: "
        "use images of one aspect ratio, or preprocessing with resize='square' or a crop."
    )


def _name(source: ImageSource, position: int) -> Path:
    return Path(source) if isinstance(source, Path | str) else Path(f"image-{position}")


@dataclass(frozen=True, eq=False)
class Encoded:
    """Features of the usable images, in order, and what failed."""

    features: Features
    paths: list[Path]
    geometries: list[Geometry]
    failures: list[Failure]


def encode(
    encoder: Encoder,
    images: ImageSource | Sequence[ImageSource],
    *,
    batch_size: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Encoded:
    """Features of images by an encoder and its own preprocessing.

    Args:
        images: what `find_images` accepts, or images in memory: one, a sequence, or an (n, H, W, 3) array.
        batch_size: one at a time is fastest on a CPU, where the activations of a batch leave the cache and are paged in
            anew for every layer; a GPU wants more.
        progress: called with (images done, images in all) after each batch.
    """
    sources = image_sources(images)
    store = _Store(len(sources))
    paths: list[Path] = []
    geometries: list[Geometry] = []
    failures: list[Failure] = []
    for batch in load_batches(sources, encoder.preprocess, batch_size=batch_size):
        if batch.paths:
            with torch.inference_mode():
                part = encoder(batch.pixels)
            store.add(part)
        paths += batch.paths
        geometries += batch.geometries
        failures += batch.failures
        if progress is not None:
            progress(len(paths) + len(failures), len(sources))
    if not paths:
        raise DataError(
            f"Encoding needs at least one usable image, got {len(failures)} that failed, the first because: "
            f"{failures[0].reason}"
        )
    return Encoded(store.features(), paths, geometries, failures)


def image_sources(images: ImageSource | Sequence[ImageSource]) -> Sequence[ImageSource]:
    """One entry per image: the files that paths, folders and patterns name, and images in memory as they are."""
    if isinstance(images, np.ndarray) and images.ndim == 4:
        images = list(images)
    if isinstance(images, np.ndarray | Image.Image | bytes):
        images = [images]
    if isinstance(images, Path | str):
        return find_images(images)
    sources: list[ImageSource] = []
    for item in images:
        sources.extend(find_images(item) if isinstance(item, Path | str) else [item])
    if not sources:
        raise DataError("Encoding needs at least one image, got an empty sequence.")
    return sources


class _Store:
    """Room for the features of all images, taken once: joining parts at the end would need the memory twice."""

    def __init__(self, images: int) -> None:
        self._room = images
        self._used = 0
        self._levels: tuple[Tensor, ...] = ()
        self._cls: Tensor | None = None

    def add(self, part: Features) -> None:
        if not self._levels:
            self._levels = tuple(level.new_empty(self._room, *level.shape[1:]) for level in part.levels)
            self._cls = None if part.cls is None else part.cls.new_empty(self._room, part.cls.shape[1])
        span = slice(self._used, self._used + len(part))
        for level, values in zip(self._levels, part.levels, strict=True):
            level[span] = values
        if self._cls is not None and part.cls is not None:
            self._cls[span] = part.cls
        self._used += len(part)

    def features(self) -> Features:
        return Features((*self._levels,), self._cls)[: self._used]
