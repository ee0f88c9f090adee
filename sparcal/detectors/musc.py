"""MuSc: images of a lot score each other (Li et al., ICLR 2024).

A patch is anomalous if few other images of the lot have one like it. Each patch takes its distance to the nearest
patch of every other image and averages the smallest 30 % of those; that is repeated for every layer and neighbourhood
size and averaged. Image scores are then smoothed over images that look alike (RsCIN). There is no reference side, so
a correction acts on the lot alone, before the layer normalisation below.

The defaults are the authors' code (xrli-U/MuSc). Where this differs from it:
* Distances come from Gram matrices, once for both directions, in bounded memory; the values are those of their cdist.
* A lot of fewer than 5 images averages the single nearest one; their interval is then empty and the score NaN.
* RsCIN takes negative similarities as 0, an image as its own neighbour, and at most as many neighbours as there are
  images. None of the three occurs with CLIP's class tokens and the authors' lots.
* `neighbours` defaults to the authors' (1, 2, 3); their (1, 8, 9) for VisA is in `sparcal.hosts`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self

import torch
from torch import Tensor
from torch.nn.functional import layer_norm, normalize, pad

from sparcal.detectors.levels import allow_reference, at_least_float32, require_images
from sparcal.errors import DataError, ShapeError
from sparcal.imaging.maps import MapRule, input_map
from sparcal.settings import instance_of, parameters, share, switch, whole_number, whole_numbers
from sparcal.types import Family, Features, Scores

MAP_RULE = MapRule(cell_pixels=14, sigma=0, upsample="corners")

# One Gram matrix takes about this many bytes, or one pair of images: large enough for a fast product, and small enough
# that its maxima are found in cache.
GRAM_BYTES = 4 * 2**20

# Below this squared distance of unit vectors, 2 - 2 cos has lost the digits that count: it is taken again in float64.
ROUNDING_LIMIT = 2e-3


@dataclass
class MuSc:
    """Mean distance of each patch to the images of the lot that have the most similar one.

    For n images of p cells, scoring takes, on top of the features: one copy of one level; distances of at most `memory`
    bytes, or of one image if that is more (n p numbers); and a Gram matrix of 4 MiB, or p^2 numbers if that is more, in
    float64 where images nearly coincide. All n^2 p distances of a lot are held only while they fit into `memory`. Each
    Gram matrix then serves both of its images; beyond that, images are scored in groups, at up to twice the arithmetic.

    Args:
        radii: sides r of the r x r neighbourhoods that are averaged, odd, in cells.
        interval: share of the other images, the most similar, that is averaged, in (0, 1].
        rscin: whether image scores are normalised over the lot and shared with images of similar `cls`.
        neighbours: how many images share, itself included; several numbers are averaged. Used by `rscin`.
        memory: bytes for distances; at least those of one image to all others are held.
    """

    radii: tuple[int, ...] = (1, 3, 5)
    interval: float = 0.3
    rscin: bool = True
    neighbours: tuple[int, ...] = (1, 2, 3)
    memory: int = 2**30
    map_rule: MapRule = MAP_RULE
    family: Family = field(default="mutual", init=False)

    get_params = parameters

    def __post_init__(self) -> None:
        whole_numbers(self.radii, "MuSc.radii", least=1, hint="3 is a 3 x 3 window")
        if any(radius % 2 == 0 for radius in self.radii):
            raise DataError(f"MuSc.radii must be odd numbers of at least 1, got {self.radii}: 3 is a 3 x 3 window.")
        share(self.interval, "MuSc.interval", hint="it is a share of the other images")
        switch(self.rscin, "MuSc.rscin")
        whole_numbers(self.neighbours, "MuSc.neighbours", least=1, hint="1 is the image alone")
        whole_number(self.memory, "MuSc.memory", least=1, hint="these are bytes, leave it at 2**30")
        instance_of(self.map_rule, "MuSc.map_rule", MapRule)

    def fit(self, reference: Features | None) -> Self:
        """Nothing is learned: the lot is its own reference."""
        allow_reference(self, reference)
        return self

    def score(self, features: Features) -> Scores:
        """Mutual score of each cell within this lot, and one score per image from the highest pixel of its map."""
        self._check(require_images("MuSc", features))
        n, h, w, _ = features.levels[0].shape
        cell = at_least_float32(features.levels[0].new_zeros(n, h * w))
        for level in features.levels:
            for radius in self.radii:
                cell += mutual_scores(neighbourhood_tokens(level, radius), self.interval, memory=self.memory)
        cell = (cell / (len(features.levels) * len(self.radii))).view(n, h, w)
        image = torch.cat([input_map(part, self.map_rule).flatten(1).amax(dim=1) for part in torch.split(cell, 16)])
        if self.rscin and features.cls is not None:  # without cls, _check has refused
            image = shared_scores(image, features.cls.to(cell.dtype), self.neighbours)
        return Scores(image, cell)

    def _check(self, features: Features) -> None:
        if len(features) < 2:
            raise DataError(
                f"MuSc needs a lot of at least 2 images, got {len(features)}: its images score each other, "
                "so score them together."
            )
        if len({grid[:2] for grid in features.grids}) != 1:
            grids = ", ".join(f"{h}x{w}" for h, w, _ in features.grids)
            raise ShapeError(
                f"MuSc averages its layers cell by cell, so they must share one grid, got {grids}: "
                "read blocks of a plain vision transformer."
            )
        if self.rscin and features.cls is None:
            raise DataError(
                "MuSc(rscin=True) compares images by Features.cls, got none: "
                "use an encoder with cls=1, or MuSc(rscin=False)."
            )


def neighbourhood_tokens(level: Tensor, radius: int) -> Tensor:
    """(n, h * w, d) unit vectors: each image normalised as a whole, averaged over windows, put to unit length (LNAMD).

    Windows that reach over the border count zeros there.

    Args:
        level: (n, h, w, d).
        radius: side of the window in cells, odd.
    """
    n, h, w, d = level.shape
    tokens = level.new_empty(n, h * w, d, dtype=torch.promote_types(level.dtype, torch.float32))
    for i, x in enumerate(level):
        whole = layer_norm(at_least_float32(x), x.shape)
        # Sums in place of means: unit length takes the factor away.
        normalize(window_sums(whole, radius).flatten(0, 1), dim=1, out=tokens[i])
    return tokens


def window_sums(x: Tensor, radius: int) -> Tensor:
    """(h, w, d): sums of (h, w, d) over radius x radius windows, rows first, then columns."""
    if radius == 1:
        return x
    h, w, _ = x.shape
    half = radius // 2
    rows = pad(x, (0, 0, 0, 0, half, half))
    summed = sum((rows[shift : shift + h] for shift in range(1, radius)), start=rows[:h])
    columns = pad(summed, (0, 0, half, half))
    return sum((columns[:, shift : shift + w] for shift in range(1, radius)), start=columns[:, :w])


def mutual_scores(tokens: Tensor, interval: float, *, memory: int) -> Tensor:
    """(n, p): mean distance of each token to its nearest one in the most similar share of the other images (MSM).

    Args:
        tokens: (n, p, d), unit vectors.
        interval: share of the other images that is averaged; at least one image.
        memory: bytes of distances held at once.
    """
    n, p, _ = tokens.shape
    count = max(1, int(interval * (n - 1)))
    group = max(1, memory // (tokens.element_size() * n * p))
    scores = tokens.new_empty(n, p)
    for start in range(0, n, group):
        rows = range(start, min(start + group, n))
        for i, squared in zip(rows, squared_distances(tokens, rows), strict=True):
            scores[i] = squared.topk(count, dim=0, largest=False, sorted=False).values.sqrt().mean(dim=0)
    return scores


def squared_distances(tokens: Tensor, rows: range) -> Tensor:
    """(g, n, p): from each token of the g images of `rows` to the nearest token of every image; infinite to its own.

    Args:
        tokens: (n, p, d), unit vectors, or zeros throughout an image.
    """
    n, p, _ = tokens.shape
    flat = tokens.flatten(0, 1)
    closest = tokens.new_empty(len(rows), n, p)
    pairs = max(1, GRAM_BYTES // (tokens.element_size() * p * p))
    table = tokens.new_empty(min(pairs, n * n) * p * p)  # one allocation for all Gram matrices
    for left, right, mutual in tiles(rows, n, pairs):
        gram = table[: len(left) * len(right) * p * p].view(len(left) * p, len(right) * p)
        torch.mm(flat[left.start * p : left.stop * p], flat[right.start * p : right.stop * p].mT, out=gram)
        gram = gram.view(len(left), p, len(right), p)
        closest[left.start - rows.start : left.stop - rows.start, right.start : right.stop] = gram.amax(dim=3).mT
        if mutual:
            there = closest[right.start - rows.start : right.stop - rows.start, left.start : left.stop]
            there.copy_(gram.amax(dim=1).transpose(0, 1))
    length = tokens.flatten(1).any(dim=1).to(tokens.dtype)
    squared = closest.mul_(-2).add_(length[rows.start : rows.stop, None, None]).add_(length[:, None])
    for i in rows:
        squared[i - rows.start, i] = torch.inf
        refine_near(squared[i - rows.start], tokens, i)
    return squared.clamp_min_(0)


def tiles(rows: range, n: int, pairs: int) -> Iterator[tuple[range, range, bool]]:
    """Ranges of images that meet each pair of an image of `rows` and another of all n once, at most `pairs` at a time.

    The flag says that both ranges are of `rows`, so that one Gram matrix serves both directions.
    """
    side = math.isqrt(pairs)
    for start in rows[::side]:
        left = range(start, min(start + side, rows.stop))
        for i in left[:-1]:
            yield range(i, i + 1), range(i + 1, left.stop), True
        step = pairs // len(left)
        for others, mutual in (
            (range(left.stop, rows.stop), True),
            (range(rows.start), False),
            (range(rows.stop, n), False),
        ):
            for first in others[::step]:
                yield left, range(first, min(first + step, others.stop)), mutual


def refine_near(squared: Tensor, tokens: Tensor, i: int) -> None:
    """Take the squared distances of image i, (n, p), again in float64, in place, where they are below `ROUNDING_LIMIT`."""
    near = squared < ROUNDING_LIMIT
    for j in near.any(dim=1).nonzero().flatten().tolist():
        own, other = tokens[i][near[j]].double(), tokens[j].double()
        towards = other.square().sum(dim=1) - 2 * own @ other.mT
        squared[j, near[j]] = (own.square().sum(dim=1) + towards.amin(dim=1)).to(squared.dtype)


def shared_scores(image: Tensor, cls: Tensor, neighbours: tuple[int, ...]) -> Tensor:
    """(n,): scores in 0 to 1 over the lot, averaged over the images with the most similar `cls` (RsCIN).

    Args:
        image: (n,), raw scores.
        cls: (n, c).
        neighbours: how many images are averaged, itself included, weighted by cosine; the mean over these numbers.
    """
    low, high = image.aminmax()
    if high == low:
        return torch.zeros_like(image)
    normalised = (image - low) / (high - low)
    unit = normalize(cls, dim=1)
    most = min(max(neighbours), len(image))
    shared = torch.empty_like(image)
    for start in range(0, len(image), 1024):  # in blocks, so that no n x n matrix is held
        block = unit[start : start + 1024]
        similarity = (block @ unit.mT).clamp_min_(0)
        similarity.diagonal(start).fill_(1)
        weight, index = similarity.topk(most, dim=1)  # (b, most), falling
        part = [(weight[:, :k] * normalised[index[:, :k]]).sum(dim=1) / weight[:, :k].sum(dim=1) for k in neighbours]
        shared[start : start + 1024] = torch.stack(part).mean(dim=0)
    return shared
