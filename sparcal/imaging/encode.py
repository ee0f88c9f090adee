"""Images to features: all at once by `encode`, or one by one in memory that does not grow with their number.

On a CPU each image is encoded on its own. Its features then depend on nothing but the image, so a score is the same
bytes in whatever company it was computed, and a batch of one is also the fastest. A graphics card gets several images at
a time; its features may then differ in the last digits with the company.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from sparcal.devices import CARD_BATCH, encoder_device, find_device
from sparcal.errors import DataError
from sparcal.feature_checks import check_encoded
from sparcal.imaging.appearance import Appearance, appearance
from sparcal.imaging.camera_format import CameraFormat, camera_in_words, other_camera_format
from sparcal.imaging.decode import ImageSource, content_hash
from sparcal.imaging.find import image_sources
from sparcal.imaging.preprocess import Geometry
from sparcal.imaging.read import Failure, ReadImage, for_transfer, name_of, read_batches, read_image
from sparcal.progress import Progress, shown_progress
from sparcal.settings import instance_of, whole_number
from sparcal.threads import in_order
from sparcal.types import Encoder, Features, Grids


@dataclass(frozen=True, eq=False)
class EncodedImage:
    """One encoded image.

    Args:
        sha256: of the file's bytes, or of the pixels of an image in memory.
        features: of this image alone.
        grey: whether its three channels are equal.
        look: what its whole looks like; None where an image reached the encoder on another way.
    """

    path: Path
    sha256: str
    features: Features
    geometry: Geometry
    grey: bool
    look: Appearance | None = None

    @property
    def kind(self) -> CameraFormat:
        """Size and colour."""
        return (*self.geometry.native, self.grey)


@dataclass(frozen=True)
class KnownImage:
    """An image that was not encoded, because its features are known."""

    path: Path
    sha256: str


def encode_each(
    encoder: Encoder, sources: Sequence[ImageSource], *, known: Container[str] = (), workers: int = 1
) -> Iterator[EncodedImage | KnownImage | Failure]:
    """Every image in order, encoded, or why it was not.

    Args:
        known: hashes of images that need no encoding.
        workers: threads that read and encode; give torch one thread each when there are several.
    """

    on_cpu = encoder_device(encoder).type == "cpu"

    def work(job: tuple[int, ImageSource]) -> EncodedImage | KnownImage | Failure | _Waiting:
        position, source = job
        path = name_of(source, position)
        try:
            digest = content_hash(source)
        except OSError as error:
            return Failure(path, f"{path} must be a readable file, got {error.strerror}: check path and permissions.")
        if digest in known:
            return KnownImage(path, digest)
        if on_cpu:
            return encode_one(encoder, source, path, sha256=digest)
        image = read_image(source, path, encoder.preprocess)
        return image if isinstance(image, Failure) else _Waiting(image, digest, _look_of(image, encoder))

    ahead = None if on_cpu else 2 * CARD_BATCH
    return _in_batches(encoder, in_order(work, enumerate(sources), workers=workers, ahead=ahead))


@dataclass(frozen=True, eq=False)
class _Waiting:
    """An image that was read and goes to the device with its neighbours."""

    image: ReadImage
    sha256: str
    look: Appearance


def _in_batches(
    encoder: Encoder, items: Iterator[EncodedImage | KnownImage | Failure | _Waiting]
) -> Iterator[EncodedImage | KnownImage | Failure]:
    """Encode what waits, in groups of one input size, and hand everything on in order."""
    group: list[_Waiting] = []
    for item in items:
        if group and not (isinstance(item, _Waiting) and item.image.pixels.shape == group[0].image.pixels.shape):
            yield from _encode_group(encoder, group)
            group = []
        if not isinstance(item, _Waiting):
            yield item
            continue
        group.append(item)
        if len(group) == CARD_BATCH:
            yield from _encode_group(encoder, group)
            group = []
    if group:
        yield from _encode_group(encoder, group)


def _encode_group(encoder: Encoder, group: Sequence[_Waiting]) -> Iterator[EncodedImage]:
    pixels = for_transfer(torch.stack([one.image.pixels for one in group]), encoder_device(encoder))
    with torch.inference_mode():
        features = check_encoded(encoder(pixels), len(pixels), encoder.id)
    for number, one in enumerate(group):
        image = one.image
        yield EncodedImage(image.path, one.sha256, features[number], image.geometry, image.grey, one.look)


def encode_one(
    encoder: Encoder, source: ImageSource, path: Path, *, sha256: str | None = None
) -> EncodedImage | Failure:
    """One image, read, hashed and encoded, or why it was not.

    Args:
        sha256: what the image is known by; None has its content hashed.
    """
    image = read_image(source, path, encoder.preprocess)
    if isinstance(image, Failure):
        return image
    with torch.inference_mode():
        features = check_encoded(encoder(image.pixels[None]), 1, encoder.id)
    look = _look_of(image, encoder)
    return EncodedImage(path, sha256 or content_hash(source), features, image.geometry, image.grey, look)


def _look_of(image: ReadImage, encoder: Encoder) -> Appearance:
    return appearance(image.pixels.numpy(), image.geometry, encoder.preprocess)


def stranger(image: EncodedImage, grids: Grids, known: Sequence[CameraFormat]) -> str | None:
    """One sentence if an image differs in grid, size or colour from those it would be compared with.

    Args:
        known: the formats of the images it is compared with; where these have many sizes, only grids count.
    """
    if image.features.grids != grids:
        return (
            f"{image.path} must give features of {_text(grids)} like the station's images, got "
            f"{_text(image.features.grids)} from {camera_in_words(image.kind)}: use images of one aspect ratio."
        )
    return other_camera_format(image.path, image.kind, known)


def _text(grids: Grids) -> str:
    return " + ".join("x".join(map(str, grid)) for grid in grids)


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
    batch_size: int | None = None,
    device: str | torch.device | None = None,
    progress: Progress | None = None,
) -> Encoded:
    """Features of images by an encoder and its own preprocessing.

    Args:
        images: what `find_images` accepts, or images in memory: one, a sequence, or an (n, H, W, 3) array.
        batch_size: None means one at a time on a CPU, where the activations of a batch leave the cache and are paged in
            anew for every layer, and 16 on a graphics card.
        device: where the features are kept; None leaves them where the encoder does.
        progress: called with images done and images in all, after each batch; a notebook draws a bar without it.

    >>> import numpy as np
    >>> from sparcal import load_encoder
    >>> encoded = encode(load_encoder("bundled?size=64"), np.zeros((3, 64, 64, 3), np.uint8))  # or a folder
    >>> encoded.features.grids
    ((8, 8, 152),)
    """
    instance_of(encoder, "encode's encoder", Encoder, hint="load one with load_encoder")
    whole_number(batch_size, "batch_size", least=1, optional=True)
    sources = image_sources(images)
    place = None if device is None else find_device(device)
    at = encoder_device(encoder)
    batch_size = min(batch_size or (1 if at.type == "cpu" else CARD_BATCH), len(sources))
    store = _Store(len(sources))
    paths: list[Path] = []
    geometries: list[Geometry] = []
    failures: list[Failure] = []
    with shown_progress(progress, "Encoding") as told:
        for batch in read_batches(sources, encoder.preprocess, batch_size=batch_size):
            if batch.paths:
                with torch.inference_mode():
                    part = check_encoded(encoder(for_transfer(batch.pixels, at)), len(batch.pixels), encoder.id)
                # Outside of inference mode, so that what is stored is an ordinary tensor.
                store.add(part if place is None else part.to(place))
            paths += batch.paths
            geometries += batch.geometries
            failures += batch.failures
            told(len(paths) + len(failures), len(sources))
    if not paths:
        raise DataError(
            f"Encoding needs at least one usable image, got {len(failures)} that failed, the first because: "
            f"{failures[0].reason}"
        )
    return Encoded(store.features(), paths, geometries, failures)


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
