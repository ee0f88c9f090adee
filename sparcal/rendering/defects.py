"""What can go wrong with a demonstration part: each defect takes a good surface to a spoilt one.

The mask follows from the two surfaces, not from the light: it is where they differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import cv2
import numpy as np
from numpy.typing import NDArray

from sparcal.rendering.workpiece import (
    HUB,
    PLATE,
    RIB_HALF,
    TOP,
    Array,
    Drawing,
    Surface,
    View,
    f32,
    holes,
    inside,
    length,
    machine,
    noise,
    planes,
    plate_distance,
    polyline_distance,
    turn,
)


def scratch(surface: Surface, view: View, rng: np.random.Generator, strength: float) -> Surface:
    """A bent groove with a burr on both sides, down to bright metal."""
    heading, reach, width = rng.uniform(0, 2 * np.pi), rng.uniform(35, 80), rng.uniform(1.0, 1.6)
    headings = heading + np.linspace(-0.5, 0.5, 9) * rng.uniform(-0.7, 0.7)
    points = np.cumsum(reach / 9 * np.stack([np.cos(headings), np.sin(headings)], axis=-1), axis=0)
    points += rng.uniform((-75, -60), (75, 60)) - points[4]
    distance, along = polyline_distance(view, points)
    ragged = 0.8 + 0.2 * noise(rng, view, along=3, across=3)
    force = strength * np.sqrt(np.clip(4 * along * (1 - along), 0, 1)) * ragged * on_metal(surface)
    groove, burr = inside(distance - width, width), inside(np.abs(distance - width) - 0.8, 0.8)
    bright = replace(surface, diffuse=np.full_like(surface.diffuse, 0.30), mirror=np.full_like(surface.mirror, 0.62))
    height = surface.height + force * (0.45 * burr - 1.4 * groove)
    return replace(surface.blend(bright, np.clip(force * groove, 0, 1)), height=height)


def dent(surface: Surface, view: View, rng: np.random.Generator, strength: float) -> Surface:
    """A knock: a shallow oval bowl with a raised rim."""
    radius, squeeze, angle = rng.uniform(7, 11), rng.uniform(0.75, 1.0), rng.uniform(0, np.pi)
    x, y = clear_point(rng, margin=radius + 2)
    along, across = turn(view.x - x, view.y - y, angle)
    reach = length(along, across / squeeze) / radius
    bowl = np.maximum(1 - (reach / 0.8) ** 2, 0) ** 1.5
    rim = np.maximum(1 - ((reach - 0.8) / 0.2) ** 2, 0) ** 2
    return replace(surface, height=surface.height + f32(strength * (0.35 * rim - 0.26 * radius * bowl)))


def stain(surface: Surface, view: View, rng: np.random.Generator, strength: float) -> Surface:
    """Dried coolant: an uneven brownish film, darkest at its edge."""
    radius = rng.uniform(10, 18)
    x, y = clear_point(rng, margin=8)
    reach = length(view.x - x, view.y - y) / radius
    reach += 0.16 * noise(rng, view, along=6, across=6) + 0.05 * noise(rng, view, along=1.5, across=1.5)
    body = np.clip(0.55 + 0.15 * noise(rng, view, along=4, across=4), 0.25, 0.8)
    film = inside((reach - 1) * radius, 2.5) * (body + (1 - body) * np.exp(-(((reach - 0.88) / 0.1) ** 2)))
    tint = planes((0.58, 0.45, 0.29)) * f32(rng.uniform(0.85, 1.1))
    wet = replace(surface, diffuse=surface.diffuse * tint, mirror=surface.mirror * tint, rough=surface.rough * 0.85)
    return surface.blend(wet, strength * film * on_metal(surface))


def chipped_rib(surface: Surface, view: View, rng: np.random.Generator, strength: float) -> Surface:
    """A piece broken out of a rib, with a rough fracture."""
    x, half = rng.choice(Drawing().ribs), rng.uniform(6, 11)
    y = HUB[1] + rng.uniform(-1, 1) * (RIB_HALF[1] - half)
    reach = length((view.x - f32(x)) / (RIB_HALF[0] + 3), (view.y - y) / half)
    broken = inside((reach - 1) * half + noise(rng, view, along=2, across=2), 3)
    floor = TOP + 2 + 0.6 * noise(rng, view, along=1.6, across=1.6)
    lost = strength * broken * np.maximum(surface.height - floor, 0)
    matt = replace(surface, rough=np.full_like(surface.rough, 0.5), mirror=surface.mirror * 0.7)
    return replace(surface.blend(matt, np.clip(lost, 0, 1)), height=surface.height - lost)


def missing_bore(drawing: Drawing, rng: np.random.Generator) -> Drawing:
    """One corner is not drilled."""
    skipped = rng.integers(len(drawing.bores))
    return replace(drawing, bores=tuple(bore for number, bore in enumerate(drawing.bores) if number != skipped))


def missing_text(drawing: Drawing, rng: np.random.Generator) -> Drawing:
    """The engraver stopped early or started late: some letters in a row are blank."""
    length = len(drawing.text)
    count = int(rng.integers(1, 4))
    first = int(rng.integers(0, length - count + 1))
    return replace(drawing, text=drawing.text[:first] + " " * count + drawing.text[first + count :])


DAMAGES: dict[str, Callable[[Surface, View, np.random.Generator, float], Surface]] = {
    "scratch": scratch,
    "dent": dent,
    "stain": stain,
    "chipped_rib": chipped_rib,
}
OMISSIONS: dict[str, Callable[[Drawing, np.random.Generator], Drawing]] = {
    "missing_bore": missing_bore,
    "missing_text": missing_text,
}
DEFECTS: tuple[str, ...] = (*DAMAGES, *OMISSIONS)


def spoil(
    surface: Surface, view: View, *, defect: str, strength: float, seed: int
) -> tuple[Surface, NDArray[np.bool_]]:
    """The part of `seed` with a defect, and the mask `(H, W)` of where its surface changed."""
    rng = np.random.default_rng([seed, 1])
    if defect in DAMAGES:
        spoilt = DAMAGES[defect](surface, view, rng, strength)
    else:
        spoilt = surface.blend(machine(OMISSIONS[defect](Drawing(), rng), view, seed=seed), strength)
    changed = np.abs(spoilt.height - surface.height) > 0.04 * strength
    changed |= (np.abs(spoilt.mirror - surface.mirror) > 0.02 * strength).any(axis=0)
    # A slope is seen half a pixel beside the change of height, and the lens spreads it by another half.
    mask = cv2.dilate(changed.astype(np.uint8), np.ones((3, 3), np.uint8)).astype(bool)
    return spoilt, mask


def on_metal(surface: Surface) -> Array:
    """1 on the faces of the part, 0 on the mat and in the bores."""
    return f32(np.clip((surface.height - (TOP - 4)) / 2, 0, 1))


def clear_point(rng: np.random.Generator, *, margin: float) -> tuple[float, float]:
    """A random point of the plate at least `margin` from its edge and from every opening."""
    x, y = f32(rng.uniform(-1, 1, (2, 64)) * np.reshape(PLATE, (2, 1)))
    points = View(x, y, pixel=1)
    clearance = -plate_distance(points)
    for distance, chamfer in holes(Drawing(), points):
        clearance = np.minimum(clearance, distance - chamfer)
    chosen = np.argmax(np.minimum(clearance, margin))  # the first of those that are clear enough
    return float(x[chosen]), float(y[chosen])
