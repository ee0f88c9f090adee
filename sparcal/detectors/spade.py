"""SPADE: the nearest normal images, then the nearest features within them (Cohen & Hoshen, 2020).

An image scores its mean distance to the K nearest normal images; a cell of each level scores its distance to the
nearest feature, anywhere in those K images; the levels' maps are averaged on the pixels of the encoder's input.

The defaults follow the implementation everybody cites (byungjae89/SPADE-pytorch): K = 5 where the paper has 50.
Where this differs from that code:
* Distances run over channels. Under a current PyTorch that code reduces over columns, without an error.
* The whole gallery is searched. That code drops the part beyond a multiple of 100 vectors, 8 % of its third level.
* The image descriptor is pooled here from a grid of features, so that a correction acts on it; the network's own
  pooled output is the mean of that same grid, so without a correction nothing changes.

The levels are the pixel levels, finest first, and last the level that describes the image (layer4 in the paper's
encoder). Features of a single level serve for both.

Three readings of what the SPARC paper corrects for SPADE's image score, all open here:
* A, the default: `image_descriptor="layer4"`; the last level is corrected cell by cell, then pooled.
* B: `image_descriptor="pooled-pixels"`; the corrected pixel levels are pooled and joined, the last level is unused.
* C: A with an encoder whose last level is the pooled 1x1 grid; the mean of one cell is that cell.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Self, get_args

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from sparcal.detectors.levels import at_least_float32, require_channels, require_images
from sparcal.errors import DataError, ShapeError
from sparcal.feature_checks import check_finite
from sparcal.imaging.maps import MapRule
from sparcal.neighbours.search import nearest
from sparcal.settings import instance_of, one_of, parameters, whole_number
from sparcal.types import Family, Features, Grids, Scores, fitted, require_reference

ImageDescriptor = Literal["layer4", "pooled-pixels"]

MAP_RULE = MapRule(cell_pixels=1)


@dataclass
class SPADE:
    """Distance to the K nearest normal images, and of each cell to the nearest feature within them.

    Levels of several grids meet on the pixels of the encoder's input, so that is the grid of `Scores.cell`, and
    `map_rule`, which tells how to go on from there, has cells of 1 pixel: it only smooths.

    Args:
        images: K, the normal images compared with.
        image_descriptor: "layer4" pools the last level; "pooled-pixels" pools the others and joins them.
        cell_pixels: input pixels along one cell of the first level.

    After `fit`: `gallery_`, the reference's pixel levels, each (n, h, w, d); `descriptor_`, (n, c), float64;
    `levels_`, how many levels the reference had.
    """

    images: int = 5
    image_descriptor: ImageDescriptor = "layer4"
    cell_pixels: int = 4
    map_rule: MapRule = MAP_RULE
    family: Family = field(default="reference", init=False)
    gallery_: tuple[Tensor, ...] | None = field(default=None, init=False, repr=False)
    descriptor_: Tensor | None = field(default=None, init=False, repr=False)
    levels_: int | None = field(default=None, init=False, repr=False)

    get_params = parameters

    def __post_init__(self) -> None:
        whole_number(self.images, "SPADE.images", least=1)
        one_of(self.image_descriptor, "SPADE.image_descriptor", get_args(ImageDescriptor))
        whole_number(self.cell_pixels, "SPADE.cell_pixels", least=1)
        instance_of(self.map_rule, "SPADE.map_rule", MapRule)
        if self.map_rule.cell_pixels != 1:
            raise DataError(
                f"SPADE scores every input pixel, so SPADE.map_rule needs cell_pixels=1, got "
                f"{self.map_rule.cell_pixels}: give the size of the encoder's cells as SPADE.cell_pixels."
            )

    def fit(self, reference: Features | None) -> Self:
        """Keep the reference's pixel levels and one descriptor per image."""
        reference = require_reference(self, reference)
        check_finite(reference, "SPADE's reference features")
        self.gallery_ = pixel_levels(reference)
        self.descriptor_ = self._describe(reference)
        self.levels_ = len(reference.levels)
        return self

    def reference_bytes(self, grids: Grids, images: int) -> int:
        """What `fit` will keep of so many images: all levels but the last in float32; descriptors are small beside them."""
        return 4 * images * sum(h * w * d for h, w, d in grids[:-1] or grids)

    def score(self, features: Features) -> Scores:
        """Mean distance of each image to its nearest normal images, and of each pixel to their features."""
        galleries, descriptors = fitted(self, self.gallery_), fitted(self, self.descriptor_)
        if len(require_images("SPADE", features).levels) != self.levels_:
            raise ShapeError(
                f"SPADE was fitted on features of {self.levels_} levels, got {len(features.levels)}: "
                "encode with the encoder it was fitted with."
            )
        levels = pixel_levels(features)
        for level, gallery in zip(levels, galleries, strict=True):
            require_channels("SPADE", level, gallery.shape[-1])
        descriptor = require_channels("SPADE", self._describe(features), descriptors.shape[-1])
        distances, nearest_images = nearest(descriptor, descriptors, k=min(self.images, len(descriptors)))
        size = (levels[0].shape[1] * self.cell_pixels, levels[0].shape[2] * self.cell_pixels)
        cell = levels[0].new_empty(len(features), *size)
        for i, images in enumerate(nearest_images):
            maps = [gallery_distance(x[i], gallery[images]) for x, gallery in zip(levels, galleries, strict=True)]
            cell[i] = average_upsampled(maps, size)
        return Scores(distances.mean(dim=1).to(cell.dtype), cell)

    def _describe(self, features: Features) -> Tensor:
        levels = features.levels[-1:] if self.image_descriptor == "layer4" else pixel_levels(features)
        # float64: the distance of two descriptors must not feel a constant that both contain.
        return torch.cat([x.mean(dim=(1, 2), dtype=torch.float64) for x in levels], dim=1)


def pixel_levels(features: Features) -> tuple[Tensor, ...]:
    """All levels but the last, in float32 or float64; the only one where there is one."""
    return tuple(at_least_float32(x) for x in features.levels[:-1] or features.levels)


def gallery_distance(x: Tensor, gallery: Tensor) -> Tensor:
    """(h, w): distance of each cell of `x` (h, w, d) to the nearest vector of `gallery` (k, h, w, d)."""
    distances, _ = nearest(x.flatten(0, 1), gallery.flatten(0, 2))
    return distances[:, 0].reshape(x.shape[:2])


def average_upsampled(maps: list[Tensor], size: tuple[int, int]) -> Tensor:
    """The mean of several (h, w) maps, each brought to `size` bilinearly by cell centres."""
    up = [interpolate(x[None, None], size=size, mode="bilinear", align_corners=False)[0, 0] for x in maps]
    return torch.stack(up).mean(dim=0)
