"""The demonstration part as a surface: a plate with bores, a slot, ribs, engraved text and a coloured hub.

Everything is drawn from distance functions in part coordinates, whose unit is 1/256 of the image width (x to the
right, y down, origin in the middle of the plate), so a part can be moved by any fraction of a pixel exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import cv2
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

FRAME = 256.0  # part units across one image
HUB = (0.0, -8.0)
HUB_RADIUS = 43.0
RING = (22.0, 33.0)  # the coloured groove in the hub: inner and outer radius
PLATE = (110.0, 98.0, 14.0)  # half width, half height, corner radius
TEXT_CENTRE = (0.0, 70.0)
TEXT_HEIGHT = 19.0
MAT, TOP, FIN, BOSS, FLOOR = 0.0, 14.0, 8.0, 6.0, -10.0  # heights: ground, plate, rib and hub above it, bottom of a bore

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
    text: str = "SP-2048"
    ribs: tuple[float, ...] = (-88.0, -70.0, 70.0, 88.0)  # x of each; all as long as RIB_HALF_LENGTH says


RIB_HALF_LENGTH = 44.0
RIB_HALF_WIDTH = 4.5
BORE_RADIUS = 8.5
COUNTERSINK = 5.0


@dataclass(frozen=True, eq=False)
class View:
    """Where each pixel looks on the part, `(H, W)` each, and the edge of a pixel in part units."""

    x: Array
    y: Array
    pixel: float


@dataclass(frozen=True, eq=False)
class Surface:
    """A part as the light meets it.

    Args:
        height: `(H, W)`, part units.
        diffuse: `(H, W, 3)`, share of light scattered evenly.
        mirror: `(H, W, 3)`, share of light reflected about the normal.
        rough: `(H, W, 2)`, spread of the reflection along and across the tool marks.
        grain: `(H, W, 2)`, unit vector along the tool marks.
    """

    height: Array
    diffuse: Array
    mirror: Array
    rough: Array
    grain: Array

    def blend(self, other: Surface, share: Array | float) -> Surface:
        """This surface where `share` (`(H, W)` or one number) is 0, `other` where it is 1."""
        weight = np.asarray(share, np.float32)
        mixed = {}
        for field in fields(self):
            ours, theirs = getattr(self, field.name), getattr(other, field.name)
            mixed[field.name] = ours + (theirs - ours) * (weight[..., None] if weight.ndim and ours.ndim == 3 else weight)
        return Surface(**mixed)


def view_part(size: int, *, shift: tuple[float, float], angle: float) -> View:
    """Part coordinates of a `size` x `size` image whose part lies `shift` pixels (right, down) off and turned by `angle`."""
    pixel = FRAME / size
    axis = (np.arange(size, dtype=np.float32) - (size - 1) / 2) * pixel
    column, row = np.meshgrid(axis - shift[0] * pixel, axis - shift[1] * pixel)
    cos, sin = np.float32(np.cos(angle)), np.float32(np.sin(angle))
    return View(cos * column + sin * row, cos * row - sin * column, pixel)


def inside(distance: Array, width: float) -> Array:
    """1 where `distance` is below -`width`, 0 outside, a straight bevel between."""
    return np.clip(-distance / width, 0, 1)


def box_distance(view: View, half: tuple[float, float], *, corner: float, centre: tuple[float, float]) -> Array:
    """Signed distance to a rounded rectangle."""
    dx = np.abs(view.x - centre[0]) - (half[0] - corner)
    dy = np.abs(view.y - centre[1]) - (half[1] - corner)
    outside: Array = np.hypot(np.maximum(dx, 0), np.maximum(dy, 0))
    return outside + np.minimum(np.maximum(dx, dy), 0) - np.float32(corner)


def polyline_distance(view: View, points: NDArray[np.float64]) -> tuple[Array, Array]:
    """Distance to a chain of segments, and how far along it (0 to 1) the nearest point lies."""
    nearest = np.full(view.x.shape, np.inf, np.float32)
    along = np.zeros(view.x.shape, np.float32)
    for number, (a, b) in enumerate(zip(points[:-1], points[1:], strict=True)):
        step = (b - a).astype(np.float32)
        px, py = view.x - np.float32(a[0]), view.y - np.float32(a[1])
        t = np.clip((px * step[0] + py * step[1]) / (step @ step), 0, 1)
        distance = np.hypot(px - t * step[0], py - t * step[1])
        closer = distance < nearest
        nearest = np.where(closer, distance, nearest)
        along = np.where(closer, (number + t) / (len(points) - 1), along)
    return nearest, along


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
    smooth = cv2.GaussianBlur(white, (0, 0), sigmaX=along / texel[0], sigmaY=across / texel[1])
    x = view.x / np.float32(texel[0]) + np.float32((columns - 1) / 2)
    y = view.y / np.float32(texel[1]) + np.float32((rows - 1) / 2)
    relief: Array = cv2.remap(smooth / smooth.std(), x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT)
    return relief


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
    turned = np.interp(regions.radius, np.arange(0, 64, 0.7), rng.standard_normal(92)).astype(np.float32)
    marks = (brushed + (turned - brushed) * regions.hub) * (1 - regions.hole)
    rubber = noise(rng, view, along=0.7, across=0.7)
    height += 0.05 * marks * regions.plate * (1 - 0.7 * regions.ring) + 0.10 * rubber * (1 - regions.plate)
    return coat(height, regions, view, rng=rng, marks=marks)


def cut(drawing: Drawing, view: View) -> tuple[Array, Regions]:
    """The relief that the tools leave, without their marks."""
    radius: Array = np.hypot(view.x - HUB[0], view.y - HUB[1])
    plate = box_distance(view, PLATE[:2], corner=PLATE[2], centre=(0, 0))
    ring = inside(np.abs(radius - (RING[0] + RING[1]) / 2) - (RING[1] - RING[0]) / 2, 1.0)
    letters = inside(text_distance(view, drawing.text) - 1.7, 1.5)

    height = MAT + (TOP - 4) * inside(plate, 1.5) + 4 * inside(plate + 1, 4)
    height += BOSS * inside(radius - HUB_RADIUS, 3.5) - 1.6 * ring - 1.8 * letters
    for x in drawing.ribs:
        rib = box_distance(view, (RIB_HALF_WIDTH, RIB_HALF_LENGTH), corner=RIB_HALF_WIDTH, centre=(x, HUB[1]))
        height += FIN * inside(rib, 3.0)
    hole = np.zeros_like(height)
    drilled = [(np.hypot(view.x - x, view.y - y) - BORE_RADIUS, COUNTERSINK) for x, y in drawing.bores]
    drilled += [(radius - 12, 4.0), (box_distance(view, (30, 5.5), corner=5.5, centre=(0, -76)), 2.0)]
    for distance, chamfer in drilled:
        wall = inside(distance, 1.5)
        height -= chamfer * inside(distance - chamfer, chamfer)
        height += (FLOOR - height) * wall
        hole = np.maximum(hole, wall)
    # No tool leaves a perfectly sharp edge, and no lens would show one.
    height = cv2.GaussianBlur(height, (0, 0), 0.8 / view.pixel)
    regions = Regions(inside(plate, 1.5), inside(radius - HUB_RADIUS, 1.5), ring, hole, letters, radius)
    return height, regions


ALUMINIUM = (0.88, 0.885, 0.89)
ANODISED = (0.012, 0.075, 0.33)
RUBBER = (0.030, 0.031, 0.034)


def coat(height: Array, regions: Regions, view: View, *, rng: np.random.Generator, marks: Array) -> Surface:
    """`height` in its materials: brushed and turned aluminium, an anodised ring, a rubber mat below."""
    aluminium = np.float32(ALUMINIUM) * np.float32(rng.normal(1, 0.02)) * np.float32(rng.normal(1, 0.006, 3))
    anodised = np.float32(ANODISED) * np.float32(rng.normal(1, 0.05, 3))
    metal = (1 + 0.035 * marks + 0.03 * noise(rng, view, along=24, across=16))[..., None] * aluminium
    bare = regions.plate * (1 - regions.hole) * (1 - 0.55 * regions.letters)
    painted = (regions.ring * bare)[..., None]
    bare = bare[..., None]

    diffuse = np.float32(RUBBER) * (1 - bare) + 0.22 * metal * bare
    mirror = np.float32(0.012) * (1 - bare) + 0.62 * metal * bare
    diffuse += (anodised - diffuse) * painted
    mirror += (np.float32(0.04) + 0.5 * anodised - mirror) * painted
    tooled = np.float32((0.20, 0.42)) + np.float32((-0.06, 0.06)) * regions.hub[..., None]
    rough = np.float32(0.5) + (tooled - np.float32(0.5)) * bare
    rough += (np.float32((0.20, 0.24)) - rough) * painted

    reach = np.maximum(regions.radius, 1)
    around = np.stack([-(view.y - HUB[1]) / reach, (view.x - HUB[0]) / reach], axis=-1)
    grain = np.where(regions.hub[..., None] > 0.5, around, np.float32((1, 0)))
    return Surface(height, diffuse, mirror, rough, grain)
