"""What parts of any kind can suffer, and how the mask of a defect follows from the surface before and after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from sparcal.rendering.surface import (
    Field,
    Surface,
    View,
    f32,
    inside,
    length,
    noise,
    planes,
    polyline_distance,
    turn,
)


@dataclass(frozen=True)
class Film:
    """What a stain is made of.

    Args:
        tint: share of red, green and blue that a full film lets through.
        lumps: distance between the bulges of its outline.
        bulge: how far they stand out, as a share of the radius.
        edge: how much thicker it dried at its edge, 0 to 1.
    """

    tint: tuple[float, float, float]
    lumps: float
    bulge: float
    edge: float


COOLANT = Film((0.58, 0.45, 0.29), lumps=6, bulge=0.16, edge=1)
PUDDLE = Film((0.52, 0.40, 0.26), lumps=20, bulge=0.22, edge=1)


@dataclass(frozen=True, eq=False)
class Sound:
    """The good part that a defect is put on."""

    surface: Surface
    view: View
    seed: int


@dataclass(frozen=True)
class Amount:
    """How much of a defect there is.

    Args:
        strength: above 0 (nothing to see) up to 1 (plain to a person).
        extent: factor on its length and width; what is missing altogether has a size of its own.
    """

    strength: float = 1.0
    extent: float = 1.0


Damage = Callable[[Sound, np.random.Generator, Amount], Surface]


def spoil(part: Sound, damage: Damage, amount: Amount) -> tuple[Surface, NDArray[np.bool_]]:
    """The part after `damage`, and the mask `(H, W)` of where its surface changed, which no light can alter."""
    surface, strength = part.surface, amount.strength
    spoilt = damage(part, np.random.default_rng([part.seed, 1]), amount)
    changed = np.abs(spoilt.height - surface.height) > 0.04 * strength
    changed |= (np.abs(spoilt.mirror - surface.mirror) > 0.02 * strength).any(axis=0)
    changed |= (np.abs(spoilt.diffuse - surface.diffuse) > 0.04 * strength).any(axis=0)
    # A slope is seen half a pixel beside the change of height, and the lens spreads it by another half.
    mask = cv2.dilate(changed.astype(np.uint8), np.ones((3, 3), np.uint8)).astype(bool)
    return spoilt, mask


def scratch_surface(
    part: Sound, rng: np.random.Generator, amount: Amount, *, half: tuple[float, float], where: Field
) -> Surface:
    """A bent groove with a burr on both sides, down to bright metal.

    Args:
        half: width and height of the box around the origin in which its middle lies, halved.
        where: `(H, W)`, 1 where the tool touches the part, 0 elsewhere.
    """
    surface, view = part.surface, part.view
    heading, reach, width = rng.uniform(0, 2 * np.pi), rng.uniform(35, 80) * amount.extent, rng.uniform(1.0, 1.6)
    distance, along = polyline_distance(view, bent_line(rng, heading=heading, reach=reach, half=half))
    ragged = 0.8 + 0.2 * noise(rng, view, along=3, across=3)
    force = amount.strength * np.sqrt(np.clip(4 * along * (1 - along), 0, 1)) * ragged * where
    groove, burr = inside(distance - width, width), inside(np.abs(distance - width) - 0.8, 0.8)
    bright = replace(surface, diffuse=np.full_like(surface.diffuse, 0.30), mirror=np.full_like(surface.mirror, 0.62))
    height = surface.height + force * (0.45 * burr - 1.4 * groove)
    return replace(surface.blend(bright, np.clip(force * groove, 0, 1)), height=height)


def bent_line(
    rng: np.random.Generator, *, heading: float, reach: float, half: tuple[float, float]
) -> NDArray[np.float64]:
    """Nine points of a slightly bent line of length `reach` whose middle lies anywhere in a box."""
    headings = heading + np.linspace(-0.5, 0.5, 9) * rng.uniform(-0.7, 0.7)
    points = np.cumsum(reach / 9 * np.stack([np.cos(headings), np.sin(headings)], axis=-1), axis=0)
    points += rng.uniform((-half[0], -half[1]), half) - points[4]
    return points


def bowl(
    part: Sound, amount: Amount, *, radius: float, squeeze: float, angle: float, centre: tuple[float, float]
) -> Surface:
    """A knock: a shallow oval bowl with a raised rim, `squeeze` times as wide across `angle` as along it."""
    along, across = turn(part.view.x - centre[0], part.view.y - centre[1], angle)
    reach = length(along, across / squeeze) / radius
    hollow = np.maximum(1 - (reach / 0.8) ** 2, 0) ** 1.5
    rim = np.maximum(1 - ((reach - 0.8) / 0.2) ** 2, 0) ** 2
    height = part.surface.height + f32(amount.strength * (0.35 * rim - 0.26 * radius * hollow))
    return replace(part.surface, height=height)


def stain_surface(
    part: Sound,
    rng: np.random.Generator,
    amount: Amount,
    *,
    radius: float,
    centre: tuple[float, float],
    where: Field | float,
    film: Film = COOLANT,
) -> Surface:
    """An uneven film, darkest where it dried last: at its edge.

    Args:
        where: `(H, W)`, 1 where the surface takes the film, 0 elsewhere.
    """
    surface, view = part.surface, part.view
    reach = length(view.x - centre[0], view.y - centre[1]) / radius
    reach += film.bulge * noise(rng, view, along=film.lumps, across=film.lumps)
    reach += 0.05 * noise(rng, view, along=1.5, across=1.5)
    body = np.clip(0.55 + 0.15 * noise(rng, view, along=4, across=4), 0.25, 0.8)
    dried = film.edge * (1 - body) * np.exp(-(((reach - 0.88) / 0.1) ** 2))
    thickness = inside((reach - 1) * radius, 2.5) * (body + dried)
    through = planes(film.tint) * f32(rng.uniform(0.85, 1.1))
    wet = replace(
        surface, diffuse=surface.diffuse * through, mirror=surface.mirror * through, rough=surface.rough * 0.85
    )
    return surface.blend(wet, amount.strength * thickness * where)


def break_off(
    part: Sound, rng: np.random.Generator, amount: Amount, *, lost: Field, outline: Field, below: Surface
) -> Surface:
    """A piece is gone: what lies `below` shows, and a rough, matt fracture stands around it.

    Args:
        lost: `(H, W)`, signed distance to the line of fracture, negative where the piece was.
        outline: `(H, W)`, signed distance to the outline of the part: beside it there is nothing to break.
    """
    surface, view = part.surface, part.view
    ragged = lost + 2.2 * noise(rng, view, along=6, across=6) + 0.7 * noise(rng, view, along=1.4, across=1.4)
    torn = replace(
        surface,
        height=surface.height - 2.5 - noise(rng, view, along=1.8, across=1.8),
        rough=np.full_like(surface.rough, 0.5),
        mirror=surface.mirror * 0.6,
    )
    broken = surface.blend(torn, inside(np.abs(ragged) - 4, 3) * inside(outline, 2))
    return surface.blend(broken.blend(below, inside(ragged, 2.5) * inside(outline - 4, 2)), amount.strength)


def ground(part: Sound, *, relief: Field, colour: tuple[float, float, float], shine: float, rough: float) -> Surface:
    """What the part lies on, all over the image: one plain material."""
    surface = part.surface
    return Surface(
        height=relief,
        diffuse=np.broadcast_to(planes(colour), surface.diffuse.shape),
        mirror=np.full_like(surface.mirror, shine),
        rough=np.full_like(surface.rough, rough),
        grain=surface.grain,
    )


def clear_point(
    rng: np.random.Generator, clearance: Callable[[View], Field], *, half: tuple[float, float], margin: float
) -> tuple[float, float]:
    """A random point of a box around the origin at least `margin` away from what `clearance` measures the distance to."""
    x, y = f32(rng.uniform(-1, 1, (2, 64)) * np.reshape(half, (2, 1)))
    chosen = np.argmax(np.minimum(clearance(View(x, y, pixel=1)), margin))  # the first that is clear enough
    return float(x[chosen]), float(y[chosen])
