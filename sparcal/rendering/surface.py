"""A surface as the light meets it, and the distance functions and random relief that parts are drawn from.

Part coordinates have a unit of 1/256 of the image width (x to the right, y down, origin in the middle of the part), so
a part can be moved by any fraction of a pixel exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from itertools import pairwise

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

Field = NDArray[np.float32]

FRAME = 256.0  # part units across one image


@dataclass(frozen=True, eq=False)
class View:
    """Where each pixel looks on the part, `(H, W)` each, and the edge of a pixel in part units."""

    x: Field
    y: Field
    pixel: float


@dataclass(frozen=True, eq=False)
class Surface:
    """A part as the light meets it, as planes: one `(H, W)` after the other.

    Args:
        height: `(H, W)`, part units.
        diffuse: `(3, H, W)`, share of red, green and blue scattered evenly.
        mirror: `(3, H, W)`, share of red, green and blue reflected about the normal.
        rough: `(2, H, W)`, spread of the reflection along and across the tool marks.
        grain: `(2, H, W)`, unit vector along the tool marks.
    """

    height: Field
    diffuse: Field
    mirror: Field
    rough: Field
    grain: Field

    def blend(self, other: Surface, share: Field | float) -> Surface:
        """This surface where `share` (`(H, W)` or one number) is 0, `other` where it is 1."""
        pairs = {field.name: (getattr(self, field.name), getattr(other, field.name)) for field in fields(self)}
        return Surface(**{name: ours + f32(share) * (theirs - ours) for name, (ours, theirs) in pairs.items()})


def f32(values: ArrayLike) -> Field:
    """`values` as float32: four bytes are plenty for a picture, and twice as fast."""
    return np.asarray(values, np.float32)


def planes(values: ArrayLike) -> Field:
    """One number per plane, ready to meet an `(H, W)` array."""
    return f32(values)[:, None, None]


def view_part(size: int, *, shift: tuple[float, float], angle: float) -> View:
    """A `size` x `size` view of a part that lies `shift` pixels (right, down) off the middle, turned by `angle`."""
    pixel = FRAME / size
    axis = f32(np.arange(size) - (size - 1) / 2)
    column, row = np.meshgrid((axis - shift[0]) * pixel, (axis - shift[1]) * pixel)
    return View(*turn(column, row, angle), pixel)


def turn(x: Field, y: Field, angle: float) -> tuple[Field, Field]:
    """Coordinates along axes turned by `angle` (radians)."""
    cos, sin = math.cos(angle), math.sin(angle)
    return cos * x + sin * y, cos * y - sin * x


def length(x: Field, y: Field) -> Field:
    """Euclidean length; several times faster than np.hypot, whose care for overflow nothing here needs."""
    return f32(np.sqrt(x * x + y * y))


def inside(distance: Field, width: float) -> Field:
    """1 where `distance` is below -`width`, 0 outside, a straight bevel between."""
    return f32(np.clip(-distance / width, 0, 1))


def box_distance(view: View, half: tuple[float, float], *, corner: float, centre: tuple[float, float]) -> Field:
    """Signed distance to a rounded rectangle."""
    dx = np.abs(view.x - centre[0]) - (half[0] - corner)
    dy = np.abs(view.y - centre[1]) - (half[1] - corner)
    return length(np.maximum(dx, 0), np.maximum(dy, 0)) + f32(np.minimum(np.maximum(dx, dy), 0)) - corner


def drill(height: Field, openings: list[tuple[Field, float]], *, floor: float) -> tuple[Field, Field]:
    """`height` with openings down to `floor`, and 1 where they are, 0 elsewhere.

    Args:
        openings: signed distance to the wall of each, and how wide its chamfer is.
    """
    opening = np.zeros_like(height)
    for distance, chamfer in openings:
        wall = inside(distance, 1.5)
        height = height - chamfer * inside(distance - chamfer, chamfer)
        height = height + (floor - height) * wall
        opening = np.maximum(opening, wall)
    return height, opening


def polyline_distance(view: View, points: ArrayLike) -> tuple[Field, Field]:
    """Distance to a chain of segments, and how far along it (0 to 1) the nearest point lies."""
    nearest = np.full(view.x.shape, np.inf, np.float32)
    along = np.zeros(view.x.shape, np.float32)
    for number, (a, b) in enumerate(pairwise(f32(points))):
        step, px, py = b - a, view.x - a[0], view.y - a[1]
        t = np.clip((px * step[0] + py * step[1]) / (step @ step), 0, 1)
        distance = length(px - t * step[0], py - t * step[1])
        closer = distance < nearest
        nearest = np.where(closer, distance, nearest)
        along = np.where(closer, number + t, along)
    return f32(nearest), f32(along / (number + 1))


def noise(rng: np.random.Generator, view: View, *, along: float, across: float) -> Field:
    """Random relief of unit variance that is tied to the part, smooth over `along` units in x and `across` in y."""
    # Texels grow with the smoothness, so that a soft relief costs no more than it holds; 1.5 frames allow for shifts.
    texel = [max(view.pixel, reach / 2) for reach in (along, across)]
    columns, rows = (int(1.5 * FRAME / edge) for edge in texel)
    white = rng.standard_normal((rows, columns), dtype=np.float32)
    smooth = f32(cv2.GaussianBlur(white, (0, 0), sigmaX=along / texel[0], sigmaY=across / texel[1]))
    x, y = view.x / texel[0] + (columns - 1) / 2, view.y / texel[1] + (rows - 1) / 2
    return f32(cv2.remap(smooth / smooth.std(), x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT))
