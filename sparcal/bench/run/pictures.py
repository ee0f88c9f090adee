"""What a qualitative figure needs of one unit: the example image, its mask, and its maps, small enough to keep."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from sparcal.bench.datasets import Record, read_mask
from sparcal.bench.run.measure import one_map
from sparcal.errors import ArtifactError
from sparcal.files.atomic import atomic_path
from sparcal.imaging.decode import open_image
from sparcal.imaging.maps import MapRule
from sparcal.imaging.preprocess import Geometry
from sparcal.types import Scores

LONGEST_SIDE = 512  # pixels of the longer side


@dataclass(frozen=True, eq=False)
class ExamplePicture:
    """One example, all arrays of one size: `image` (H, W, 3) uint8, `mask` (H, W) bool, `base` and `corrected` maps."""

    name: str
    image: NDArray[np.uint8]
    mask: NDArray[np.bool_]
    base: NDArray[np.float32]
    corrected: NDArray[np.float32]


def take_picture(
    record: Record, geometry: Geometry, position: int, base: Scores, corrected: Scores, map_rule: MapRule
) -> ExamplePicture:
    """The picture of one evaluated image.

    Args:
        position: of the image among those that were scored together.
    """
    pixels = np.asarray(open_image(record.image).convert("RGB"))
    mask = read_mask(record, geometry.native)
    maps = [one_map(scores, position, geometry, map_rule) for scores in (base, corrected)]
    size = _small(geometry.native)
    return ExamplePicture(
        name=record.image.name,
        image=np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), dtype=np.uint8),
        mask=np.asarray(cv2.resize(mask.astype(np.uint8), size, interpolation=cv2.INTER_NEAREST)) > 0,
        base=np.asarray(cv2.resize(maps[0], size, interpolation=cv2.INTER_AREA), dtype=np.float32),
        corrected=np.asarray(cv2.resize(maps[1], size, interpolation=cv2.INTER_AREA), dtype=np.float32),
    )


def write_picture(picture: ExamplePicture, path: Path) -> None:
    """Write a picture, whole or not at all."""
    with atomic_path(path) as temporary, temporary.open("wb") as stream:
        np.savez_compressed(
            stream,
            name=np.array(picture.name),
            image=picture.image,
            mask=picture.mask,
            base=picture.base,
            corrected=picture.corrected,
        )


def read_picture(path: Path) -> ExamplePicture:
    """The picture that `write_picture` wrote."""
    try:
        with np.load(path, allow_pickle=False) as held:
            return ExamplePicture(str(held["name"]), held["image"], held["mask"], held["base"], held["corrected"])
    except (OSError, KeyError, ValueError) as error:
        raise ArtifactError(f"The picture {path} cannot be read ({error}): run its unit again.") from error


def _small(native: tuple[int, int]) -> tuple[int, int]:
    """(W, H) at most LONGEST_SIDE, keeping the aspect ratio."""
    scale = min(1.0, LONGEST_SIDE / max(native))
    return max(1, round(native[1] * scale)), max(1, round(native[0] * scale))
