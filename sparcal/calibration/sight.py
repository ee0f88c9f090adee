"""What the whole of a part looks like against what was expected, in numbers that a local defect cannot move.

Each part is compared with the expected one field by field: light, colour, sharpness, features. A defect changes some
fields, another lamp or camera changes nearly all. So a part is read by a low quantile over its fields, and held against a
higher quantile of earlier parts: as long as no more than SPARED of its fields are spoilt, what is read of a part stays
below the yardstick that the same part would have given when whole.

What a defect may hide, a small change of light or place hides too. So the middle of the fields is read as well, and held
against the middle of earlier parts; a defect can move that, and `sparcal.calibration.shift` bets on it only slowly.

Features are read with their sign. A smashed part changes the features of all its surroundings, for each cell of a deep
encoder sees far, but it changes them this way here and that way there; a lamp pushes them the same way everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sparcal.imaging.appearance import DARK, FIELD_GRID, FIELDS, PICTURE_EDGE, Appearance, FieldArray
from sparcal.types import Features

LOW, HIGH = 0.3, 0.5  # quantiles over fields
SPARED = HIGH - LOW  # share of the fields that a defect may take, wherever it lies
SKETCH = 4  # numbers that stand for the channels of a cell
PLAY = 0.25  # pixels of the small picture that a part may lie off without being called moved
STEADY = 0.01  # the least spread of a field over good parts: smaller changes are the sensor's
NOTICEABLE = (0.03, 0.03, 0.03, 0.15)  # change of each of FIELDS, in logarithms, below which nobody would see it
STEP = 0.1  # pixels of the small picture: the same for the place
TILTS = ("from the left", "from above")

SIGNED = (*FIELDS, *(f"features {number + 1}" for number in range(SKETCH)))  # watched upwards and downwards
PLACE = ("right", "down")
SUDDEN = (*(name for name in SIGNED for _ in "+-"), "pattern", *(name for name in PLACE for _ in "+-"))
LASTING = tuple(name for name in (*FIELDS, *PLACE) for _ in "+-")  # the middle of what has a name
SIDES = (*SUDDEN, *LASTING)
_QUANTILES = (LOW, HIGH, 0.5, 1 - HIGH, 1 - LOW)


@dataclass(frozen=True, eq=False)
class Sight:
    """One part as a whole, in a few kilobytes.

    Args:
        sketch: (g, g, 4), the first level of its features, projected on fixed random signs.
    """

    appearance: Appearance
    sketch: FieldArray


@dataclass(frozen=True, eq=False)
class Expectation:
    """The mean of good parts, and how far their fields lie from it."""

    fields: FieldArray
    picture: FieldArray
    sketch: FieldArray
    field_spread: FieldArray
    sketch_spread: FieldArray


@dataclass(frozen=True)
class PartReading:
    """A part against its expectation.

    Args:
        quantiles: five over the fields, for each of SIGNED and for the pattern, which has no sign.
        moved: pixels of the small picture to the right and down.
        contrast: of its fields, as a difference of logarithms.
        tilt: rise of brightness from the left to the right, and from above to below.
    """

    quantiles: tuple[tuple[float, ...], ...]
    moved: tuple[float, float]
    contrast: float
    tilt: tuple[float, float]

    @property
    def values(self) -> NDArray[np.float64]:
        """What is read of each of SIDES, upwards and downwards in turn, spared the fields that a defect may take."""
        fields = [side for q in self.quantiles[:-1] for side in (q[0], -q[4])]
        moved = [side for x in self.moved for side in (x - PLAY, -x - PLAY)]
        bands = (*NOTICEABLE, STEP, STEP)
        lasting = [side for x, band in zip(self._middle, bands, strict=True) for side in (x - band, -x - band)]
        return np.array([*fields, self.quantiles[-1][0], *moved, *lasting])

    @property
    def yardsticks(self) -> NDArray[np.float64]:
        """What later parts are held against, in the same order."""
        fields = [side for q in self.quantiles[:-1] for side in (q[1], -q[3])]
        moved = [side for x in self.moved for side in (x, -x)]
        lasting = [side for x in self._middle for side in (x, -x)]
        return np.array([*fields, self.quantiles[-1][1], *moved, *lasting])

    @property
    def _middle(self) -> list[float]:
        """Of each of FIELDS, and the place."""
        return [*(q[2] for q in self.quantiles[: len(FIELDS)]), *self.moved]

    @property
    def centre(self) -> dict[str, float]:
        """The middle of what has a name, for words."""
        middle = dict(zip(FIELDS, (q[2] for q in self.quantiles), strict=False))
        moved = dict(zip(PLACE, self.moved, strict=True))
        return {**middle, **moved, "contrast": self.contrast, **dict(zip(TILTS, self.tilt, strict=True))}

    def to_json(self) -> list[float]:
        """A flat list of numbers; `from_json` gives the reading back."""
        flat = [x for q in self.quantiles for x in q]
        return [float(f"{x:.6g}") for x in (*flat, *self.moved, self.contrast, *self.tilt)]

    @classmethod
    def from_json(cls, data: Sequence[float]) -> PartReading:
        """The reading that `to_json` wrote."""
        n, fields = len(_QUANTILES), len(SIGNED) + 1
        quantiles = tuple(tuple(data[n * i : n * (i + 1)]) for i in range(fields))
        right, down, contrast, across, along = data[n * fields :]
        return cls(quantiles, (right, down), contrast, (across, along))


def see(features: Features, look: Appearance) -> Sight:
    """The sight of one part.

    Args:
        features: of this part alone.
    """
    level = features.levels[0][0].float()
    sketch = (level @ _signs(level.shape[-1]).to(level.device)).permute(2, 0, 1)[None]
    pooled = torch.nn.functional.adaptive_avg_pool2d(
        sketch, (min(FIELD_GRID, level.shape[0]), min(FIELD_GRID, level.shape[1]))
    )
    return Sight(look, pooled[0].permute(1, 2, 0).cpu().numpy())


def expect(sights: Sequence[Sight]) -> Expectation:
    """What good parts promise."""
    fields = np.stack([one.appearance.fields for one in sights])
    sketches = np.stack([one.sketch for one in sights])
    spread = np.sqrt(np.square(sketches - sketches.mean(axis=0)).mean(axis=(0, -1)))
    # A cell where all parts agree would outweigh the others; half the typical spread is the least it counts with.
    least = max(float(np.median(spread)) / 2, float(np.abs(sketches).mean()) * 1e-3, 1e-12)
    return Expectation(
        fields.mean(axis=0),
        np.stack([one.appearance.picture for one in sights]).mean(axis=0),
        sketches.mean(axis=0),
        np.maximum(fields.std(axis=0), STEADY),
        np.maximum(spread, least),
    )


def read(sight: Sight, expected: Expectation) -> PartReading:
    """A part against its expectation."""
    light = sight.appearance.fields - expected.fields
    features = np.moveaxis((sight.sketch - expected.sketch) / expected.sketch_spread[..., None], -1, 0)
    pattern = np.sqrt(np.square(light / expected.field_spread).mean(axis=0))
    groups = (group.reshape(len(group), -1) for group in (light, features, pattern[None]))  # grids may differ
    found = np.concatenate([np.quantile(group, _QUANTILES, axis=1).T for group in groups])
    quantiles = tuple(tuple(each) for each in found.tolist())
    return PartReading(
        quantiles,
        moved_by(sight.appearance.picture, expected.picture),
        _contrast(sight.appearance.fields[0]) - _contrast(expected.fields[0]),
        _tilt(light[0]),
    )


def read_each(sights: Sequence[Sight]) -> list[PartReading]:
    """Good parts, each against the expectation that the others give."""
    return [read(sights[i], expect([one for j, one in enumerate(sights) if j != i])) for i in range(len(sights))]


def moved_by(picture: FieldArray, expected: FieldArray) -> tuple[float, float]:
    """By how many pixels a small picture lies to the right of and below another, by phase correlation.

    Logarithms less their mean, so that a brighter light moves nothing.
    """
    here, there = (np.log(each.astype(np.float64) + DARK) for each in (picture, expected))
    if min(float(here.std()), float(there.std())) < 1e-6:  # nothing to see, so nothing to register
        return 0.0, 0.0
    window = cv2.createHanningWindow((PICTURE_EDGE, PICTURE_EDGE), cv2.CV_64F)
    (right, down), _ = cv2.phaseCorrelate(there - there.mean(), here - here.mean(), window)
    return float(right), float(down)


def _contrast(brightness: FieldArray) -> float:
    """Distance between bright and dark fields."""
    low, high = np.quantile(brightness, (0.1, 0.9))
    return float(np.log(high - low + DARK))


def _tilt(change: FieldArray) -> tuple[float, float]:
    """How much more the right and lower half changed than the left and upper one."""
    middle = change.shape[1] // 2, change.shape[0] // 2
    across = np.median(change[:, middle[0] :]) - np.median(change[:, : middle[0]])
    along = np.median(change[middle[1] :]) - np.median(change[: middle[1]])
    return float(across), float(along)


def _signs(channels: int) -> Tensor:
    """(d, 4), the same for every station."""
    drawn = np.random.default_rng(channels).choice((-1.0, 1.0), (channels, SKETCH)) / channels**0.5
    return torch.from_numpy(drawn.astype(np.float32))
