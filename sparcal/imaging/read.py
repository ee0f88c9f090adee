"""The one reader: an image decoded and preprocessed, or the sentence that says why it cannot be used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from sparcal.errors import DataError
from sparcal.imaging.camera_format import is_grey
from sparcal.imaging.decode import ImageSource, open_image
from sparcal.imaging.preprocess import Geometry, Preprocess
from sparcal.settings import whole_number
from sparcal.threads import in_order


@dataclass(frozen=True)
class Failure:
    """An image that could not be used, and one sentence why."""

    path: Path
    reason: str


@dataclass(frozen=True, eq=False)
class ReadImage:
    """One image as an encoder takes it.

    Args:
        pixels: (3, H, W), preprocessed.
        grey: whether its three channels are equal.
    """

    path: Path
    pixels: Tensor
    geometry: Geometry
    grey: bool


@dataclass(frozen=True, eq=False)
class Batch:
    """The usable ones among consecutive images, `pixels` (n, 3, H, W), and what failed among them."""

    pixels: Tensor
    geometries: list[Geometry]
    paths: list[Path]
    failures: list[Failure]


def name_of(source: ImageSource, position: int) -> Path:
    """The path of a file; `image-<position>` for an image in memory."""
    return Path(source) if isinstance(source, Path | str) else Path(f"image-{position}")


def read_image(source: ImageSource, path: Path, preprocess: Preprocess) -> ReadImage | Failure:
    """One image, decoded and preprocessed, or why it was not."""
    try:
        image = open_image(source)
        pixels, geometry = preprocess(image)
    except DataError as error:
        return Failure(path, str(error))
    return ReadImage(path, pixels, geometry, is_grey(image))


def read_batches(
    sources: Sequence[ImageSource], preprocess: Preprocess, *, batch_size: int = 16, workers: int = 2
) -> Iterator[Batch]:
    """Read and preprocess images in order, one batch ahead of the consumer.

    A batch stands for the next `batch_size` images; those that fail are listed in it and may leave it empty.

    Args:
        sources: files, or images in memory, which are called `image-<position>`.
        workers: threads that decode.
    """
    for name, value in (("batch_size", batch_size), ("workers", workers)):
        whole_number(value, name, least=1)

    def work(job: tuple[int, ImageSource]) -> ReadImage | Failure:
        position, source = job
        return read_image(source, name_of(source, position), preprocess)

    images = in_order(work, enumerate(sources), workers=workers, ahead=max(batch_size, 2 * workers))
    return _batched(images, batch_size)


def for_transfer(pixels: Tensor, device: torch.device) -> Tensor:
    """`pixels` in page-locked memory where they go to an NVIDIA card, which can then fetch them while others are read."""
    return pixels.pin_memory() if device.type == "cuda" else pixels


def _batched(images: Iterator[ReadImage | Failure], batch_size: int) -> Iterator[Batch]:
    shape: torch.Size | None = None
    while read := list(islice(images, batch_size)):
        shape = shape or next((item.pixels.shape for item in read if isinstance(item, ReadImage)), None)
        yield _collect(read, shape)


def _collect(read: list[ReadImage | Failure], shape: torch.Size | None) -> Batch:
    good: list[ReadImage] = []
    failures: list[Failure] = []
    for item in read:
        if isinstance(item, Failure):
            failures.append(item)
        elif item.pixels.shape != shape:
            failures.append(Failure(item.path, _other_size(item, shape)))
        else:
            good.append(item)
    pixels = torch.stack([item.pixels for item in good]) if good else torch.empty(0, *(shape or (3, 0, 0)))
    return Batch(pixels, [item.geometry for item in good], [item.path for item in good], failures)


def _other_size(item: ReadImage, shape: torch.Size | None) -> str:
    got, native = tuple(item.pixels.shape[1:]), item.geometry.native
    expected = tuple(shape[1:]) if shape is not None else ()
    return (
        f"{item.path} must give an input of {expected} like the first image, got {got} from {native} pixels: "
        "use images of one aspect ratio, or preprocessing with resize='square' or a crop."
    )
