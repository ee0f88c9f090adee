"""An anomalib model as an encoder: images through its own pre-processor to the features that are corrected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from sparcal.errors import DataError
from sparcal.imaging.preprocess import Geometry
from sparcal.integrations.anomalib.models import Place
from sparcal.integrations.anomalib.passes import preprocessed, record_features
from sparcal.types import Features


@dataclass(eq=False)
class ModelEncoder:
    """A model's feature path, as far as a correction stands in it."""

    model: Any = field(repr=False)
    place: Place
    to_features: Callable[[Tensor, Any], Features]
    _geometries: dict[tuple[int, int], Geometry] = field(default_factory=dict, init=False, repr=False)

    @property
    def id(self) -> str:
        """The class of the model: what it was trained with is its checkpoint's to say."""
        return f"anomalib:{type(self.model).__name__}"

    def preprocess(self, image: Image.Image) -> tuple[Tensor, Geometry]:
        """(3, H, W) as anomalib's engine hands it to the torch model, and where its pixels come from."""
        return preprocessed(self.model, to_pixels(image))[0], self.geometry(image.height, image.width)

    def geometry(self, height: int, width: int) -> Geometry:
        """Where the model looks in an image of this size."""
        size = height, width
        if size not in self._geometries:
            self._geometries[size] = find_geometry(lambda image: preprocessed(self.model, image).cpu(), size)
        return self._geometries[size]

    def __call__(self, pixels: Tensor) -> Features:
        """`pixels`: (n, 3, H, W), preprocessed."""
        return record_features(self.place, self.model, [pixels], self.to_features)


def to_pixels(image: Image.Image) -> Tensor:
    """(1, 3, H, W) in [0, 1] of an RGB image."""
    return torch.from_numpy(np.asarray(image, np.float32) / 255).permute(2, 0, 1)[None]


def find_geometry(transform: Callable[[Tensor], Tensor], native: tuple[int, int]) -> Geometry:
    """Where the pixels of a transformed image lie in the native one.

    A transform does not say what it does, so it is shown a black image, a white one, and one that brightens from edge to
    edge: the brightness of a pixel then tells which column, or row, it came from, to about a tenth of a pixel. A line
    through two points well inside leaves out what resizing does at edges, and padding.

    Args:
        transform: (n, 3, H, W) to (n, 3, h, w).
    """
    height, width = native
    ramps = (torch.arange(height) + 0.5) / height, (torch.arange(width) + 0.5) / width
    down, across = ramps[0][:, None].expand(native), ramps[1].expand(native)
    probes = torch.stack([torch.zeros(native), torch.ones(native), down, across])
    black, white, rows, columns = transform(probes[:, None].repeat(1, 3, 1, 1)).double()[:, 0]
    span = torch.where((white - black).abs() > 1e-6, white - black, torch.nan)
    h, w = rows.shape
    top, bottom = _ends(((rows - black) / span)[:, w // 2] * height)
    left, right = _ends(((columns - black) / span)[h // 2] * width)
    return Geometry(native, (h, w), (top, left, bottom, right), (0, 0, h, w))


def _ends(positions: Tensor) -> tuple[float, float]:
    """Native positions of the outer edges of a row of pixels, from the positions of its pixels' centres."""
    size = len(positions)
    first, last = size // 4, size - 1 - size // 4
    start, stop = float(positions[first]), float(positions[last])
    step = (stop - start) / (last - first) if last > first else float("nan")
    if not step > 0:
        raise DataError(
            "LotCalibrator plants defects on the images of the lot, and needs a pre-processor that keeps them upright and "
            "does not depend on chance, got another: leave flips, turns and augmentations out of it."
        )
    return start - (first + 0.5) * step, stop + (size - last - 0.5) * step
