"""The demonstration part as a surface: a plate with bores, a slot, ribs, engraved text and a coloured hub.

Everything is drawn from distance functions in part coordinates, whose unit is 1/256 of the image width (x to the
right, y down, origin in the middle of the plate), so a part can be moved by any fraction of a pixel exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from itertools import pairwise

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float32]

FRAME = 256.0  # part units across one image
TOP = 14.0  # height of the plate's face above the mat
FLOOR = -10.0  # height of the bottom of a bore
PLATE = (110.0, 98.0)  # half width, half height
HUB = (0.0, -8.0)
HUB_RADIUS = 43.0
RING = (22.0, 33.0)  # the coloured groove in the hub: inner and outer radius
RIB_HALF = (4.5, 44.0)  # half width, half length
TEXT_CENTRE = (0.0, 70.0)
TEXT_HEIGHT = 19.0
ALUMINIUM = (0.88, 0.885, 0.89)
ANODISED = (0.012, 0.075, 0.33)
RUBBER = (0.030, 0.031, 0.034)

# A single-stroke engraving font: each glyph is a list of polylines on a 4 x 6 grid, y down.
GLYPHS: dict[str, tuple[tuple[tuple[float, float], ...], ...]] = {
    "S": (((4, 1), (3, 0), (1, 0), (0, 1), (0, 2), (1, 3), (3, 3), (4, 4), (4, 5), (3, 6), (1, 6), (0, 5)),),
    "P": (((0, 6), (0, 0), (3, 0), (4, 1), (4, 2), (3, 3), (0, 3)),),
    "-": (((0.8, 3), (3.2, 3)),),
    "2": (((0, 1), (1, 0), (3, 0), (4, 1), (4, 2), (0, 6), (4, 6)),),
    "0": (((1, 0), (3, 0), (4, 1), (4, 5), (3, 6), (1, 6), (0, 5), (0, 1), (1, 0)),),
    "4": (((3, 6), (3, 0), (0, 4), (4, 4)),),
    "8": (
        ((1, 3), (0, 2), (0, 1), (1, 0), (3, 0), (4, 1), (4, 2), (3, 3), (1, 3)),
        ((1, 3), (0, 4), (0, 5), (1, 6), (3, 6), (4, 5), (4, 4), (3, 3)),
    ),
}


@dataclass(frozen=True)
class Drawing:
    """What the part should have: leaving something out of it is how a feature goes missing."""

    bores: tuple[tuple[float, float], ...] = ((-90.0, -78.0), (90.0, -78.0), (-90.0, 78.0), (90.0, 78.0))
    ribs: tuple[float, ...] = (-88.0, -70.0, 70.0, 88.0)  # x of each
    text: str = "SP-2048"


@dataclass(frozen=True, eq=False)
class View:
    """Where each pixel looks on the part, `(H, W)` each, and the edge of a pixel in part units."""

    x: Array
    y: Array
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

    height: Array
    diffuse: Array
    mirror: Array
    rough: Array
    grain: Array

    def blend(self, other: Surface, share: Array | float) -> Surface:
        """This surface where `share` (`(H, W)` or one number) is 0, `other` where it is 1."""
        pairs = {field.name: (getattr(self, field.name), getattr(other, field.name)) for field in fields(self)}
        return Surface(**{name: ours + f32(share) * (theirs - ours) for name, (ours, theirs) in pairs.items()})


def f32(values: ArrayLike) -> Array:
    """`values` as float32: four bytes are plenty for a picture, and twice as fast."""
    return np.asarray(values, np.float32)


def planes(values: ArrayLike) -> Array:
    """One number per plane, ready to meet an `(H, W)` array."""
    return f32(values)[:, None, None]


def view_part(size: int, *, shift: tuple[float, float], angle: float) -> View:
    """A `size` x `size` view of a part that lies `shift` pixels (right, down) off the middle, turned by `angle`."""
    pixel = FRAME / size
    axis = f32(np.arange(size) - (size - 1) / 2)
    column, row = np.meshgrid((axis - shift[0]) * pixel, (axis - shift[1]) * pixel)
    return View(*turn(column, row, angle), pixel)


def turn(x: Array, y: Array, angle: float) -> tuple[Array, Array]:
    """Coordinates along axes turned by `angle` (radians)."""
    cos, sin = math.cos(angle), math.sin(angle)
    return cos * x + sin * y, cos * y - sin * x


def length(x: Array, y: Array) -> Array:
    """Euclidean length; several times faster than np.hypot, whose care for overflow nothing here needs."""
    return f32(np.sqrt(x * x + y * y))


def inside(distance: Array, width: float) -> Array:
    """1 where `distance` is below -`width`, 0 outside, a straight bevel between."""
    return f32(np.clip(-distance / width, 0, 1))


def box_distance(view: View, half: tuple[float, float], *, corner: float, centre: tuple[float, float]) -> Array:
    """Signed distance to a rounded rectangle."""
    dx = np.abs(view.x - centre[0]) - (half[0] - corner)
    dy = np.abs(view.y - centre[1]) - (half[1] - corner)
    return length(np.maximum(dx, 0), np.maximum(dy, 0)) + f32(np.minimum(np.maximum(dx, dy), 0)) - corner


def polyline_distance(view: View, points: ArrayLike) -> tuple[Array, Array]:
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


def text_distance(view: View, text: str) -> Array:
    """Distance to the strokes of `text`, laid out so that a blank leaves the other letters where they are."""
    unit = TEXT_HEIGHT / 6
    left = TEXT_CENTRE[0] - (len(text) * 5.6 - 1.6) / 2 * unit
    top = TEXT_CENTRE[1] - TEXT_HEIGHT / 2
    distance = np.full(view.x.shape, np.float32(FRAME))
    # Strokes are thin: measuring only the band of rows around the line of text saves nine tenths of the work.
    rows = np.flatnonzero(np.abs(view.y - TEXT_CENTRE[1]).min(axis=1) < TEXT_HEIGHT)
    if not len(rows):
        return distance
    band = slice(rows[0], rows[-1] + 1)
    for position, letter in enumerate(text):
        near = left + (position * 5.6 + 2) * unit
        columns = np.flatnonzero(np.abs(view.x[band] - near).min(axis=0) < 4 * unit)
        if letter == " " or not len(columns):
            continue
        window = (band, slice(columns[0], columns[-1] + 1))
        part = View(view.x[window], view.y[window], view.pixel)
        for stroke in GLYPHS[letter]:
            points = np.array(stroke) * unit + (left + position * 5.6 * unit, top)
            distance[window] = np.minimum(distance[window], polyline_distance(part, points)[0])
    return distance


def noise(rng: np.random.Generator, view: View, *, along: float, across: float) -> Array:
    """Random relief of unit variance that is tied to the part, smooth over `along` units in x and `across` in y."""
    # Texels grow with the smoothness, so that a soft relief costs no more than it holds; 1.5 frames allow for shifts.
    texel = [max(view.pixel, reach / 2) for reach in (along, across)]
    columns, rows = (int(1.5 * FRAME / edge) for edge in texel)
    white = rng.standard_normal((rows, columns), dtype=np.float32)
    smooth = f32(cv2.GaussianBlur(white, (0, 0), sigmaX=along / texel[0], sigmaY=across / texel[1]))
    x, y = view.x / texel[0] + (columns - 1) / 2, view.y / texel[1] + (rows - 1) / 2
    return f32(cv2.remap(smooth / smooth.std(), x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT))


@dataclass(frozen=True, eq=False)
class Regions:
    """What each pixel belongs to, `(H, W)` shares from 0 to 1, and the distance to the middle of the hub."""

    plate: Array
    hub: Array
    ring: Array
    hole: Array
    letters: Array
    radius: Array


def machine(drawing: Drawing, view: View, *, seed: int) -> Surface:
    """The surface of one part made after `drawing`; `seed` decides what differs between good parts."""
    rng = np.random.default_rng([seed, 0])
    height, regions = cut(drawing, view)
    brushed = 0.75 * noise(rng, view, along=22, across=0.55) + 0.5 * noise(rng, view, along=7, across=0.5)
    turned = f32(np.interp(regions.radius, np.arange(92) * 0.7, rng.standard_normal(92)))
    marks = (brushed + (turned - brushed) * regions.hub) * (1 - regions.hole)
    rubber = noise(rng, view, along=0.7, across=0.7)
    height += 0.05 * marks * regions.plate * (1 - 0.7 * regions.ring) + 0.10 * rubber * (1 - regions.plate)
    return coat(height, regions, view, rng=rng, marks=marks)


def cut(drawing: Drawing, view: View) -> tuple[Array, Regions]:
    """The relief that the tools leave, without their marks."""
    radius = length(view.x - HUB[0], view.y - HUB[1])
    plate = plate_distance(view)
    ring = inside(np.abs(radius - (RING[0] + RING[1]) / 2) - (RING[1] - RING[0]) / 2, 1)
    letters = inside(text_distance(view, drawing.text) - 1.7, 1.5)

    height = (TOP - 4) * inside(plate, 1.5) + 4 * inside(plate + 1, 4)
    height += 6 * inside(radius - HUB_RADIUS, 3.5) - 1.6 * ring - 1.8 * letters
    for x in drawing.ribs:
        height += 8 * inside(box_distance(view, RIB_HALF, corner=RIB_HALF[0], centre=(x, HUB[1])), 3)
    hole = np.zeros_like(height)
    for distance, chamfer in holes(drawing, view):
        wall = inside(distance, 1.5)
        height -= chamfer * inside(distance - chamfer, chamfer)
        height += (FLOOR - height) * wall
        hole = np.maximum(hole, wall)
    # No tool leaves a perfectly sharp edge, and no lens would show one.
    height = f32(cv2.GaussianBlur(height, (0, 0), 0.8 / view.pixel))
    return height, Regions(inside(plate, 1.5), inside(radius - HUB_RADIUS, 1.5), ring, hole, letters, radius)


def plate_distance(view: View) -> Array:
    """Signed distance to the outline of the plate."""
    return box_distance(view, PLATE, corner=14, centre=(0, 0))


def holes(drawing: Drawing, view: View) -> list[tuple[Array, float]]:
    """Signed distance to the wall of each opening (bores, the hub's bore, the slot), and how wide its chamfer is."""
    bores = [(length(view.x - x, view.y - y) - 8.5, 5.0) for x, y in drawing.bores]
    hub = length(view.x - HUB[0], view.y - HUB[1]) - 12
    slot = box_distance(view, (30, 5.5), corner=5.5, centre=(0, -76))
    return [*bores, (hub, 4.0), (slot, 2.0)]


def coat(height: Array, regions: Regions, view: View, *, rng: np.random.Generator, marks: Array) -> Surface:
    """`height` in its materials: brushed and turned aluminium, an anodised ring, a rubber mat below."""
    aluminium = planes(ALUMINIUM) * f32(rng.normal(1, 0.02)) * planes(rng.normal(1, 0.006, 3))
    anodised = planes(ANODISED) * planes(rng.normal(1, 0.05, 3))
    metal = (1 + 0.035 * marks + 0.03 * noise(rng, view, along=24, across=16)) * aluminium
    bare = regions.plate * (1 - regions.hole) * (1 - 0.55 * regions.letters)
    painted = regions.ring * bare

    diffuse = planes(RUBBER) * (1 - bare) + 0.22 * metal * bare
    diffuse += (anodised - diffuse) * painted
    mirror = 0.012 * (1 - bare) + 0.62 * metal * bare
    mirror += (0.04 + 0.5 * anodised - mirror) * painted
    rough = 0.5 + (planes((0.20, 0.42)) + planes((-0.06, 0.06)) * regions.hub - 0.5) * bare
    rough += (planes((0.20, 0.24)) - rough) * painted

    reach = np.maximum(regions.radius, 1)
    around = np.stack([(HUB[1] - view.y) / reach, (view.x - HUB[0]) / reach])
    grain = np.where(regions.hub > 0.5, around, planes((1, 0)))
    return Surface(height, diffuse, mirror, f32(rough), grain)
