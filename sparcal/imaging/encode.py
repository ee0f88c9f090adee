"""Images one by one: read, hashed and encoded in order by a few threads, in memory that does not grow with their number.

Each image is encoded on its own. Its features then depend on nothing but the image, so a score is the same bytes in
whatever company it was computed, and on a CPU a batch of one is also the fastest.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

from sparcal.errors import DataError
from sparcal.imaging.camera_format import Kind, in_words, is_grey, other_kind
from sparcal.imaging.find import Failure, Geometry, ImageSource, open_image
from sparcal.types import Encoder, Features

Item = TypeVar("Item")
Result = TypeVar("Result")
Grids = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, eq=False)
class Seen:
    """One encoded image.

    Args:
        sha256: of the file's bytes, or of the pixels of an image in memory.
        features: of this image alone.
        grey: whether its three channels are equal.
    """

    path: Path
    sha256: str
    features: Features
    geometry: Geometry
    grey: bool

    @property
    def kind(self) -> Kind:
        """Size and colour."""
        return (*self.geometry.native, self.grey)


@dataclass(frozen=True)
class Known:
    """An image that was not encoded, because its features are known."""

    path: Path
    sha256: str


def encode_each(
    encoder: Encoder, sources: Sequence[ImageSource], *, known: Container[str] = (), workers: int = 1
) -> Iterator[Seen | Known | Failure]:
    """Every image in order, encoded, or why it was not.

    Args:
        known: hashes of images that need no encoding.
        workers: threads that read and encode; give torch one thread each when there are several.
    """

    def work(job: tuple[int, ImageSource]) -> Seen | Known | Failure:
        position, source = job
        path = name_of(source, position)
        try:
            digest = content_hash(source)
        except OSError as error:
            return Failure(path, f"{path} must be a readable file, got {error.strerror}: check path and permissions.")
        return Known(path, digest) if digest in known else encode_one(encoder, source, path)

    return in_order(work, enumerate(sources), workers=workers)


def encode_one(encoder: Encoder, source: ImageSource, path: Path) -> Seen | Failure:
    """One image, read, hashed and encoded, or why it was not."""
    try:
        image = open_image(source)
        pixels, geometry = encoder.preprocess(image)
    except DataError as error:
        return Failure(path, str(error))
    with torch.inference_mode():
        features = encoder(pixels[None])
    return Seen(path, content_hash(source), features, geometry, is_grey(image))


def in_order(work: Callable[[Item], Result], items: Iterable[Item], *, workers: int) -> Iterator[Result]:
    """`work` of every item, in order, by `workers` threads that run at most a few items ahead of the consumer."""
    if workers < 1:
        raise DataError(f"workers must be at least 1, got {workers}: give the number of cores to use.")
    waiting = iter(items)
    pool = ThreadPoolExecutor(workers, thread_name_prefix="sparcal")
    try:
        running: deque[Future[Result]] = deque(pool.submit(work, item) for item in islice(waiting, 2 * workers))
        while running:
            done = running.popleft().result()
            running.extend(pool.submit(work, item) for item in islice(waiting, 1))
            yield done
    finally:
        pool.shutdown(cancel_futures=True)


def name_of(source: ImageSource, position: int) -> Path:
    """The path of a file; `image-<position>` for an image in memory."""
    return Path(source) if isinstance(source, Path | str) else Path(f"image-{position}")


def content_hash(source: ImageSource) -> str:
    """SHA-256 of a file's bytes, or of the pixels of an image in memory, in hexadecimal."""
    if isinstance(source, Path | str):
        with Path(source).open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    if isinstance(source, bytes):
        return hashlib.sha256(source).hexdigest()
    pixels = np.ascontiguousarray(source)
    return hashlib.sha256(f"{pixels.dtype} {pixels.shape}".encode() + pixels.tobytes()).hexdigest()


def stranger(seen: Seen, grids: Grids, kinds: Sequence[Kind]) -> str | None:
    """One sentence if the image is of another size or colour than those it would be compared with.

    Args:
        kinds: of the images it is compared with; where these have many sizes, only grids count.
    """
    if seen.features.grids != grids:
        return (
            f"{seen.path} must give features of {_text(grids)} like the station's images, got "
            f"{_text(seen.features.grids)} from {in_words(seen.kind)}: use images of one aspect ratio."
        )
    return other_kind(seen.path, seen.kind, kinds)


def _text(grids: Grids) -> str:
    return " + ".join("x".join(map(str, grid)) for grid in grids)
