"""Size and colour of images: what tells a part of the calibrated camera from a picture of something else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image

CameraFormat = tuple[int, int, bool]  # H, W, grey

MANY_KINDS = 4  # parts cut to many sizes have no size of their own


def camera_format_of(image: Image.Image) -> CameraFormat:
    """Size and colour of an RGB image."""
    return image.height, image.width, is_grey(image)


def is_grey(image: Image.Image) -> bool:
    """Whether the three channels of an RGB image are equal."""
    sample = np.asarray(image)[::4, ::4]  # a sixteenth of the pixels shows colour as well as all of them
    return bool((sample == sample[..., :1]).all())


def other_camera_format(name: object, kind: CameraFormat, kinds: Sequence[CameraFormat]) -> str | None:
    """One sentence if an image is of another size or colour than those it would be compared with.

    Args:
        kinds: of the images it is compared with; where these have many sizes, none is refused.
    """
    if kind in kinds or not 0 < len(kinds) <= MANY_KINDS:
        return None
    expected = " or ".join(in_words(one) for one in kinds)
    return (
        f"{name} must have {expected} like the images of the calibration, got {in_words(kind)}: "
        "check that it is from the same camera."
    )


def in_words(kind: CameraFormat) -> str:
    """A kind for people."""
    return f"{kind[0]} x {kind[1]} {'grey' if kind[2] else 'colour'} pixels"
