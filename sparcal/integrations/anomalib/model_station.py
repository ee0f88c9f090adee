"""A trained model and a lot's images as `sparcal.calibration` takes them: the model stands where a station would."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
from PIL import Image
from torch import Tensor

from sparcal.calibration.defaults import PLANTED
from sparcal.calibration.held_out import Folds, own_scores, plain_folds
from sparcal.calibration.inputs import CalibrationInputs
from sparcal.calibration.kept_rows import cells_of_grid
from sparcal.calibration.outline import find_outline
from sparcal.calibration.planted_parts import plant_on
from sparcal.calibration.screening import ShownParts
from sparcal.corrections import Identity
from sparcal.errors import DataError
from sparcal.imaging.camera_format import is_grey
from sparcal.imaging.decode import content_hash
from sparcal.imaging.encode import EncodedImage
from sparcal.integrations.anomalib.detector import ModelDetector, rows_without_images
from sparcal.integrations.anomalib.encoder import ModelEncoder
from sparcal.integrations.anomalib.passes import batches, preprocessed
from sparcal.score import CalibratedDetector
from sparcal.types import Encoder, Features


def model_inputs(detector: ModelDetector, encoder: ModelEncoder, reference: Features) -> CalibrationInputs:
    """The trained model, with its training images scored out of fold by its own reference.

    A fold keeps the bank less what lies in its images: choosing a coreset for each would cost more than all the rest.

    Args:
        detector: fitted on `reference`.
    """
    geometries = [encoder.geometry(*detector.image_size)] * len(reference)  # maps are not drawn on training images
    members = plain_folds(len(reference))
    cells = cells_of_grid(reference)
    thinned = [rows_without_images(detector.rows, part, cells=cells) for part in members] if detector.thins else []
    if any(len(rows) == 0 for rows in thinned):
        raise DataError(
            f"A memory bank of {len(detector.rows)} vectors is too small to be cut into folds: raise the coreset ratio."
        )
    folds = Folds(members, tuple(thinned))
    own = own_scores(CalibratedDetector(Identity(), detector), reference, geometries, folds)
    unknown = [""] * len(reference)  # anomalib does not say which files it trained on
    return CalibrationInputs(detector, reference, geometries, unknown, (own.image, own.peak), folds)


def shown_parts(
    encoder: ModelEncoder, parts: Sequence[tuple[Path, Tensor]], reference: Features, *, seed: int
) -> ShownParts:
    """The good parts of a lot, encoded as they are and with planted defects.

    Args:
        parts: names, and images (1, 3, H, W) in [0, 1].
        seed: of the defects.
    """
    prepared = [preprocessed(encoder.model, image) for _, image in parts]
    features = Features.cat([encoder(batch) for batch in batches(prepared)])
    if features.grids != reference.grids:
        raise DataError(
            f"The lot's images must give features on the grid of the training images, {reference.grids}, got "
            f"{features.grids}: use images of the same size."
        )
    photographs = [to_photograph(image) for _, image in parts]
    images = [
        EncodedImage(
            name, content_hash(photo), features[i], encoder.geometry(photo.height, photo.width), is_grey(photo)
        )
        for i, ((name, _), photo) in enumerate(zip(parts, photographs, strict=True))
    ]
    outline = find_outline(reference)
    # Planting asks an encoder for two things, how it prepares an image and what it sees in it; it has both.
    planted = plant_on(cast(Encoder, encoder), photographs, outline=outline.cells, n=PLANTED, seed=seed)
    return ShownParts(images, planted, outline)


def to_photograph(image: Tensor) -> Image.Image:
    """(1, 3, H, W) in [0, 1] as an 8-bit RGB image."""
    pixels = (image[0] * 255).round().byte().permute(1, 2, 0).cpu().numpy()
    return Image.fromarray(np.ascontiguousarray(pixels))
