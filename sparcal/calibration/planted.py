"""Planted defects: drawn on good parts, so that it can be tried what a lot will find before a bad part has been seen.

Quality engineers know them as challenge parts. Two thirds are plain: a person would see them at once, and what is found
of these is about what is found of real ones. One third is faint or tiny: these tell good corrections apart, and show
where finding ends. Kinds, sizes, contrasts and places come from a seed; sizes and contrasts are log-uniform, and
stratified, so that even a few dozen defects cover the range. They are drawn on the native image, before any
preprocessing, and only where the part is (`outline`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparcal.calibration.planted_kinds import KINDS
from sparcal.errors import DataError
from sparcal.settings import finite_number, one_of, seed_number, share, switch, whole_number

Pixels = NDArray[np.uint8]
Mask = NDArray[np.bool_]

# Sizes as shares of the image's shorter side; grey levels by which the pixels of a defect change on average, at most.
PLAIN_SIZES, PLAIN_CONTRASTS = (0.04, 0.20), (30.0, 90.0)
FAINT_SIZES, FAINT_CONTRASTS = (0.012, 0.12), (12.0, 60.0)
FEWEST_PIXELS = 3.0  # below this a defect is less than a camera resolves
VISIBLE = 2.0  # grey levels from which a pixel counts as changed
TRIES = 8  # places that are tried for a defect which shows only where there is structure


@dataclass(frozen=True)
class PlantedDefect:
    """One defect, before it is drawn.

    Args:
        kind: one of KINDS.
        size: largest extent, as a share of the image's shorter side.
        contrast: mean change of its pixels in grey levels, at most.
        seed: of its shape, colour and place.
        plain: whether a person would see it at once.
    """

    kind: str
    size: float
    contrast: float
    seed: int
    plain: bool = True

    def __post_init__(self) -> None:
        one_of(self.kind, "PlantedDefect.kind", KINDS)
        share(self.size, "PlantedDefect.size", hint="it is a share of the image's shorter side")
        finite_number(self.contrast, "PlantedDefect.contrast", above=0, most=255, hint="these are grey levels")
        seed_number(self.seed, "PlantedDefect.seed")
        switch(self.plain, "PlantedDefect.plain")


def draw_defects(n: int, seed: int) -> list[PlantedDefect]:
    """n plain defects and half as many faint ones, in random order.

    Asking for another n or seed gives other defects; the same n and seed give the same ones on every machine.
    """
    whole_number(n, "The number of planted defects", least=1, hint="ask for 64")
    seed_number(seed, "The seed of planted defects")
    rng = np.random.default_rng([seed, n])
    plain = _some(n, PLAIN_SIZES, PLAIN_CONTRASTS, rng, plain=True)
    faint = _some(n // 2, FAINT_SIZES, FAINT_CONTRASTS, rng, plain=False)
    defects = [*plain, *faint]
    return [defects[i] for i in rng.permutation(len(defects))]


def _some(
    n: int, sizes: tuple[float, float], contrasts: tuple[float, float], rng: np.random.Generator, *, plain: bool
) -> list[PlantedDefect]:
    """n defects of all kinds in turn."""
    names = list(KINDS)
    drawn = zip(_spread(n, *sizes, rng), _spread(n, *contrasts, rng), rng.integers(0, 2**31, n), strict=True)
    return [
        PlantedDefect(names[i % len(names)], float(size), float(contrast), int(one), plain)
        for i, (size, contrast, one) in enumerate(drawn)
    ]


def plant(image: Pixels, defect: PlantedDefect, outline: Mask | None = None) -> tuple[Pixels, Mask]:
    """The image with the defect on it, and the pixels that changed.

    Args:
        image: (H, W, 3), RGB.
        outline: where the part is, on a grid of any size that is laid over the image; everywhere unless given.
    """
    rng = np.random.default_rng([defect.seed, 1])
    size = max(FEWEST_PIXELS, defect.size * min(image.shape[:2]))
    best: _Drawn | None = None
    for place in _places(image.shape[:2], outline, rng):
        drawn = _draw(image, defect, size, place)
        if best is None or drawn.strength > best.strength:
            best = drawn
        if drawn.strength >= 0.5 * defect.contrast:
            break
    assert best is not None
    changed, mask = image.copy(), np.zeros(image.shape[:2], bool)
    changed[best.span], mask[best.span] = best.pixels, best.mask
    return changed, mask


@dataclass(frozen=True, eq=False)
class _Drawn:
    """The part of an image that a defect changes, and by how much it does on average: the rest need not be touched."""

    span: tuple[slice, slice]
    pixels: Pixels
    mask: Mask
    strength: float


def _draw(image: Pixels, defect: PlantedDefect, size: float, place: tuple[int, int]) -> _Drawn:
    half = int(np.ceil(size * 0.75)) + 4
    rows, columns = (
        np.clip(np.arange(c - half, c + half + 1), 0, n - 1) for c, n in zip(place, image.shape, strict=False)
    )
    square = image[np.ix_(rows, columns)].astype(np.float32)
    drawn, _ = KINDS[defect.kind](square, size, defect.contrast, np.random.default_rng([defect.seed, 2]))
    top, left = max(0, half - place[0]), max(0, half - place[1])
    down, right = (
        min(2 * half + 1, image.shape[0] - place[0] + half),
        min(2 * half + 1, image.shape[1] - place[1] + half),
    )
    span = np.s_[place[0] - half + top : place[0] - half + down, place[1] - half + left : place[1] - half + right]
    drawn = np.clip(drawn, 0, 255)[top:down, left:right]
    pixels = np.rint(drawn).astype(np.uint8)
    mask = np.abs(drawn - square[top:down, left:right]).max(axis=2) >= VISIBLE
    change = np.abs(pixels.astype(np.int16) - image[span])[mask]
    return _Drawn(span, pixels, mask, float(change.mean()) if mask.any() else 0.0)


def _places(shape: tuple[int, ...], outline: Mask | None, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Pixels to try, each on the part."""
    cells = np.argwhere(np.ones((1, 1), bool) if outline is None else outline)
    grid = (1, 1) if outline is None else outline.shape
    if len(cells) == 0:
        raise DataError("Planted defects need a part to lie on, got an outline without a cell: give one that has some.")
    chosen = cells[rng.integers(0, len(cells), TRIES)] + rng.random((TRIES, 2))
    pixels = (chosen / grid * shape[:2]).astype(int)
    return [(int(y), int(x)) for y, x in pixels]


def _spread(n: int, low: float, high: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """n log-uniform numbers, one in each n-th of the range, in random order."""
    steps = (rng.permutation(n) + rng.random(n)) / n
    spread: NDArray[np.float64] = np.exp(np.log(low) + steps * (np.log(high) - np.log(low)))
    return spread
