"""The round product: a turned brass flange with a knurled rim, bolt holes, a seal ring and pad-printed letters."""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np

from sparcal.rendering.lettering import text_distance
from sparcal.rendering.surface import Field, Surface, View, drill, f32, inside, length, noise, planes

RADIUS = 112.0  # of the knurled rim
FACE = 12.0  # height of the flange's face above the tray
HOLE_FLOOR = -6.0  # height of the bottom of a hole
BOSS = 48.0  # radius of the raised middle
SEAL = (57.0, 4.5)  # the rubber ring in its groove: middle radius, half width
PITCH_CIRCLE = 79.0
HOLE = 8.0  # radius of a bolt hole
BORE = 11.0  # radius of the middle bore
RIM = (104.5, 6.0)  # the knurled band: middle radius, half width
TEETH = 72
PRINT_HEIGHT = 11.0
BRASS = (0.86, 0.66, 0.36)
SEAL_RUBBER = (0.022, 0.022, 0.025)
INK = (0.05, 0.012, 0.016)
TRAY = (0.42, 0.45, 0.47)


@dataclass(frozen=True)
class CapDrawing:
    """What a cap should have: leaving something out of it is how a feature goes missing."""

    holes: tuple[int, ...] = (0, 1, 2, 3, 4, 5)  # sixths of a turn
    print: tuple[str, str] = ("DN80", "PN40")  # above and below the bore
    seal: bool = True


COMPLETE = CapDrawing()


def turn_cap(view: View, *, seed: int, drawing: CapDrawing = COMPLETE) -> Surface:
    """The surface of one cap; `seed` decides what differs between good ones."""
    rng = np.random.default_rng([seed, 0])
    radius = length(view.x, view.y)
    body, seal = inside(radius - RADIUS, 1.5), seal_share(radius) * drawing.seal
    height, opening = drill(profile(view, radius), openings(drawing, view), floor=HOLE_FLOOR)
    height += (FACE - 0.6 + 2.6 * dome(radius) - height) * seal
    height = f32(cv2.GaussianBlur(height, (0, 0), 0.8 / view.pixel))

    # A turning tool leaves a fine spiral, each turn a little different, and now and then it chatters.
    spiral = f32(np.interp(radius, np.arange(180) * 0.7, rng.standard_normal(180)))
    metal = body * (1 - opening) * (1 - seal)
    marks = (spiral + 0.35 * noise(rng, view, along=9, across=9)) * metal
    height += 0.045 * marks + 0.12 * noise(rng, view, along=1.1, across=1.1) * (1 - body)
    return coat_cap(height, view, metal=metal, seal=seal * body, ink=print_share(drawing, view), marks=marks, rng=rng)


def profile(view: View, radius: Field) -> Field:
    """The relief of the turned body, without openings: face, boss, groove and knurled rim."""
    height = FACE * inside(radius - RADIUS, 2.5) + 4 * inside(radius - BOSS, 2.5)
    height += 5 * band(radius, *RIM, bevel=2.5)
    height -= 1.5 * band(radius, 91, 1.2, bevel=1.2) + 3 * inside(radius - 23, 8)
    around = np.arctan2(view.y, view.x)
    knurl = np.cos(TEETH * around + 0.5 * radius) * np.cos(TEETH * around - 0.5 * radius)
    height += 0.9 * f32(knurl) * band(radius, RIM[0], RIM[1] - 1, bevel=1)
    return f32(height - 3 * seal_share(radius))


def openings(drawing: CapDrawing, view: View) -> list[tuple[Field, float]]:
    """Signed distance to the wall of each bolt hole and of the bore, and how wide its chamfer is."""
    found = [(length(view.x, view.y) - BORE, 2.0)]
    for sixth in drawing.holes:
        angle = math.pi / 3 * (sixth + 0.5)
        x, y = PITCH_CIRCLE * math.cos(angle), PITCH_CIRCLE * math.sin(angle)
        found.append((length(view.x - x, view.y - y) - HOLE, 3.0))
    return found


def seal_share(radius: Field) -> Field:
    """1 in the groove of the seal ring."""
    return band(radius, *SEAL, bevel=1)


def band(radius: Field, middle: float, half: float, *, bevel: float) -> Field:
    """1 in the ring of `half` width around the radius `middle`, with a straight bevel inside it on both sides."""
    return inside(f32(np.abs(radius - middle)) - half, bevel)


def dome(radius: Field) -> Field:
    """The round back of the seal ring: 1 at its crest, 0 at its sides."""
    return f32(np.sqrt(np.maximum(1 - ((radius - SEAL[0]) / SEAL[1]) ** 2, 0)))


def print_share(drawing: CapDrawing, view: View) -> Field:
    """1 where there is ink."""
    above, below = drawing.print
    strokes = np.minimum(
        text_distance(view, above, centre=(0, -35), height=PRINT_HEIGHT),
        text_distance(view, below, centre=(0, 35), height=PRINT_HEIGHT),
    )
    return inside(f32(strokes) - 1.5, 0.7)


def coat_cap(
    height: Field, view: View, *, metal: Field, seal: Field, ink: Field, marks: Field, rng: np.random.Generator
) -> Surface:
    """`height` in its materials: turned brass, rubber, ink, and the plastic tray below."""
    alloy = planes(BRASS) * f32(rng.normal(1, 0.02)) * planes(rng.normal(1, 0.008, 3))
    brass = (1 + 0.04 * marks + 0.03 * noise(rng, view, along=26, across=26)) * alloy
    tray = (1 + 0.02 * noise(rng, view, along=12, across=12)) * planes(TRAY)
    dark = np.maximum(seal, 0)
    plain = (1 - metal) * (1 - dark) * (height > -1)  # the tray; deep in a hole it is too dark to see
    ink = ink * metal * f32(np.clip(0.94 + 0.03 * noise(rng, view, along=1.2, across=1.2), 0, 1))

    diffuse = tray * plain + planes(SEAL_RUBBER) * dark + 0.24 * brass * metal
    diffuse += (planes(INK) - diffuse) * ink
    mirror = 0.03 * plain + 0.035 * dark + 0.58 * brass * metal
    mirror += (0.04 - mirror) * ink
    rough = 0.45 + (planes((0.17, 0.40)) - 0.45) * metal
    rough += (0.3 - rough) * np.maximum(ink, dark)
    reach = np.maximum(length(view.x, view.y), 1)
    grain = np.stack([-view.y / reach, view.x / reach])
    return Surface(height, f32(diffuse), f32(mirror), f32(rough), f32(grain))
