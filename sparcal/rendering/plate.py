"""The flat product: a plate with bores, a slot, ribs, engraved text and a coloured hub."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from sparcal.rendering.lettering import text_distance
from sparcal.rendering.surface import Field, Surface, View, box_distance, drill, f32, inside, length, noise, planes

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


@dataclass(frozen=True)
class Drawing:
    """What the part should have: leaving something out of it is how a feature goes missing."""

    bores: tuple[tuple[float, float], ...] = ((-90.0, -78.0), (90.0, -78.0), (-90.0, 78.0), (90.0, 78.0))
    ribs: tuple[float, ...] = (-88.0, -70.0, 70.0, 88.0)  # x of each
    text: str = "SP-2048"


@dataclass(frozen=True, eq=False)
class Regions:
    """What each pixel belongs to, `(H, W)` shares from 0 to 1, and the distance to the middle of the hub."""

    plate: Field
    hub: Field
    ring: Field
    hole: Field
    letters: Field
    radius: Field


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


def cut(drawing: Drawing, view: View) -> tuple[Field, Regions]:
    """The relief that the tools leave, without their marks."""
    radius = length(view.x - HUB[0], view.y - HUB[1])
    plate = plate_distance(view)
    ring = inside(np.abs(radius - (RING[0] + RING[1]) / 2) - (RING[1] - RING[0]) / 2, 1)
    letters = inside(text_distance(view, drawing.text, centre=TEXT_CENTRE, height=TEXT_HEIGHT) - 1.7, 1.5)

    height = (TOP - 4) * inside(plate, 1.5) + 4 * inside(plate + 1, 4)
    height += 6 * inside(radius - HUB_RADIUS, 3.5) - 1.6 * ring - 1.8 * letters
    for x in drawing.ribs:
        height += 8 * inside(box_distance(view, RIB_HALF, corner=RIB_HALF[0], centre=(x, HUB[1])), 3)
    height, hole = drill(height, holes(drawing, view), floor=FLOOR)
    # No tool leaves a perfectly sharp edge, and no lens would show one.
    height = f32(cv2.GaussianBlur(height, (0, 0), 0.8 / view.pixel))
    return height, Regions(inside(plate, 1.5), inside(radius - HUB_RADIUS, 1.5), ring, hole, letters, radius)


def plate_distance(view: View) -> Field:
    """Signed distance to the outline of the plate."""
    return box_distance(view, PLATE, corner=14, centre=(0, 0))


def holes(drawing: Drawing, view: View) -> list[tuple[Field, float]]:
    """Signed distance to the wall of each opening (bores, the hub's bore, the slot), and how wide its chamfer is."""
    bores = [(length(view.x - x, view.y - y) - 8.5, 5.0) for x, y in drawing.bores]
    hub = length(view.x - HUB[0], view.y - HUB[1]) - 12
    slot = box_distance(view, (30, 5.5), corner=5.5, centre=(0, -76))
    return [*bores, (hub, 4.0), (slot, 2.0)]


def coat(height: Field, regions: Regions, view: View, *, rng: np.random.Generator, marks: Field) -> Surface:
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
