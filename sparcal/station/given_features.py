"""Features that somebody has already, taken for a station's images in place of encoding them.

A few images are encoded all the same: features in another order, of other images or of another encoder would make a
station that is wrong in silence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from sparcal.calibration.held_out import spaced
from sparcal.errors import DataError
from sparcal.feature_checks import check_finite
from sparcal.imaging.decode import ImageSource, content_hash
from sparcal.imaging.encode import EncodedImage, encode_one
from sparcal.imaging.read import Failure, name_of, read_image
from sparcal.threads import in_order
from sparcal.types import Encoder, Features, require_features

ENCODED_AGAIN = 3  # images, to compare
LARGEST_GAP = 0.02  # of a feature's length, for half precision and other processors


def with_features(
    encoder: Encoder, sources: Sequence[ImageSource], features: Features, *, workers: int = 1
) -> Iterator[EncodedImage | Failure]:
    """Every image in order with its row of `features`, or why it cannot be used."""
    require_features(features, "features=")
    if len(features) != len(sources):
        raise DataError(
            f"features= must have one row per image, in order, got {len(features)} for {len(sources)} images: encode all."
        )
    check_finite(features, "features=")
    for number in spaced(len(sources), ENCODED_AGAIN):
        _compare(encoder, sources[number], name_of(sources[number], number), features[number])

    def work(job: tuple[int, ImageSource]) -> EncodedImage | Failure:
        number, source = job
        path = name_of(source, number)
        image = read_image(source, path, encoder.preprocess)
        if isinstance(image, Failure):
            return image
        return EncodedImage(path, content_hash(source), features[number], image.geometry, image.grey)

    return in_order(work, enumerate(sources), workers=workers)


def _compare(encoder: Encoder, source: ImageSource, path: Path, given: Features) -> None:
    """Raise DataError unless the encoder gives these features for this image; an unreadable one is told of later."""
    image = encode_one(encoder, source, path)
    if isinstance(image, Failure):
        return
    if image.features.grids != given.grids:
        raise DataError(
            f"features= must be on the encoder's grids (h, w, d) {image.features.grids}, got {given.grids}: "
            "give the encoder that made them."
        )
    for own, theirs in zip(image.features.levels, given.levels, strict=True):
        gap = torch.linalg.vector_norm((own - theirs.to(own)).float()) / torch.linalg.vector_norm(own.float())
        if not float(gap) <= LARGEST_GAP:
            raise DataError(
                f"features= must be what the encoder gives for {path}, got others, {float(gap):.0%} away: give the "
                "encoder that made them, and the images in their order."
            )
