"""Size and colour of images: what tells a part of the calibrated camera from a picture of something else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image

CameraFormat = tuple[int, int, bool]  # H, W, grey

MANY_FORMATS = 4  # parts cut to many sizes have no size of their own


def camera_format_of(image: Image.Image) -> CameraFormat:
    """Size and colour of an RGB image."""
    return image.height, image.width, is_grey(image)


def is_grey(image: Image.Image) -> bool:
    """Whether the three channels of an RGB image are equal."""
    sample = np.asarray(image)[::4, ::4]  # a sixteenth of the pixels shows colour as well as all of them
    return bool((sample == sample[..., :1]).all())


def other_camera_format(name: object, camera: CameraFormat, known: Sequence[CameraFormat]) -> str | None:
    """One sentence if an image differs in size or colour from those it would be compared with.

    Args:
        known: the formats of the images it is compared with; where these have many sizes, none is refused.
    """
    if camera in known or not 0 < len(known) <= MANY_FORMATS:
        return None
    expected = " or ".join(camera_in_words(one) for one in known)
    return (
        f"{name} must have {expected} like the images of the calibration, got {camera_in_words(camera)}: "
        "check that it is from the same camera."
    )


def camera_in_words(camera: CameraFormat) -> str:
    """Size and colour, as people say them."""
    height, width, grey = camera
    return f"{height} x {width} {'grey' if grey else 'colour'} pixels"
