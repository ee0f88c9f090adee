"""Images on which an exported graph is compared with the library: such as do not collapse under the lot's correction.

SPARC takes the lot's own normals to their mean, where some detectors say nothing but rounding, and noise would be
divided by noise. So defects are planted on a few of them, and training parts come along as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from sparcal.calibration.planted import PlantedDefect, plant
from sparcal.errors import DataError
from sparcal.imaging.decode import open_image
from sparcal.station.kept_images import kept_images

if TYPE_CHECKING:
    from sparcal.imaging.preprocess import Preprocess
    from sparcal.station.lot import Lot

EACH = 2  # parts of the lot, and training parts
DEFECTS = tuple(PlantedDefect(kind, 0.2, 120.0, seed) for seed, kind in enumerate(("stain", "scratch")))


def probe_images(lot: Lot) -> Tensor | None:
    """Preprocessed pixels (n, 3, H, W); None where no image of the lot or its station is at hand."""
    station = lot.station
    reference = station.folder.references / station.record.reference
    trained = kept_images(reference, station.record.files)[:EACH] or _still_there(station.record.images)
    shown = trained if lot.name is None else kept_images(lot.folder, lot.record.files)[:EACH]
    shown = shown or _still_there(lot.record.images)
    opened = [np.asarray(open_image(path), np.uint8) for path in shown]
    planted = [plant(image, defect)[0] for image, defect in zip(opened, DEFECTS, strict=False)]
    images = [*map(Image.fromarray, planted), *(open_image(path) for path in trained)]
    return _alike(images, station.encoder.preprocess)


def _alike(images: Sequence[Image.Image], preprocess: Preprocess) -> Tensor | None:
    """The images that give the first one's input size: a graph has one."""
    pixels = [preprocess(image)[0] for image in images]
    same = [one for one in pixels if one.shape == pixels[0].shape]
    return torch.stack(same) if same else None


def _still_there(images: Sequence[tuple[str, str]]) -> list[Path]:
    """Images that a station of version 0.1 has not kept, where they were then, as far as they can be opened."""
    found = []
    for path in (Path(name) for name, _ in images[: 4 * EACH]):
        try:
            open_image(path)
        except DataError:
            continue
        found.append(path)
    return found[:EACH]
