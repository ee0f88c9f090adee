"""What can go wrong with a cap."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sparcal.rendering.cap import BOSS, COMPLETE, FACE, RADIUS, RIM, TRAY, CapDrawing, openings, turn_cap
from sparcal.rendering.damage import (
    PUDDLE,
    Amount,
    Damage,
    Sound,
    bowl,
    break_off,
    clear_point,
    ground,
    scratch_surface,
    stain_surface,
)
from sparcal.rendering.surface import Field, Surface, View, f32, length, noise


def scratch_cap(part: Sound, rng: np.random.Generator, amount: Amount) -> Surface:
    """A scratch across face, boss or rim."""
    return scratch_surface(part, rng, amount, half=(68, 68), where=on_body(part.surface))


def pit_cap(part: Sound, rng: np.random.Generator, amount: Amount) -> Surface:
    """A pore of the casting, opened by the tool: a small deep hole."""
    radius = rng.uniform(4.0, 6.5) * amount.extent
    centre = cap_point(rng, margin=radius + 2)
    squeeze, angle = rng.uniform(0.7, 1), rng.uniform(0, np.pi)
    sunk = bowl(part, amount, radius=radius, squeeze=squeeze, angle=angle, centre=centre)
    dull = replace(sunk, mirror=sunk.mirror * 0.15, diffuse=sunk.diffuse * 0.3)
    depth = np.maximum(part.surface.height - sunk.height, 0) / radius
    return replace(sunk.blend(dull, np.clip(10 * depth, 0, amount.strength)), height=sunk.height)


def stain_cap(part: Sound, rng: np.random.Generator, amount: Amount) -> Surface:
    """A fingerprint of dried coolant."""
    radius = rng.uniform(9, 16) * amount.extent
    return stain_surface(part, rng, amount, radius=radius, centre=cap_point(rng, margin=6), where=on_body(part.surface))


def chipped_rim(part: Sound, rng: np.random.Generator, amount: Amount) -> Surface:
    """A nick in the knurled rim."""
    x, y = rim_point(rng)
    radius = rng.uniform(7, 11) * amount.extent
    return broken_from(part, rng, amount, hole=length(part.view.x - x, part.view.y - y) - radius)


def missing_hole(part: Sound, rng: np.random.Generator, amount: Amount) -> Surface:
    """One bolt hole is not drilled."""
    skipped = int(rng.integers(6))
    drawing = CapDrawing(holes=tuple(sixth for sixth in range(6) if sixth != skipped))
    return remade_cap(part, drawing, amount)


def missing_print(part: Sound, rng: np.random.Generator, amount: Amount) -> Surface:
    """The printing pad ran dry: one word, or a part of it, is not there."""
    above, below = COMPLETE.print
    count = int(rng.integers(1, 5))
    if rng.random() < 0.5:
        return remade_cap(part, CapDrawing(print=(above[:-count] + " " * count, below)), amount)
    return remade_cap(part, CapDrawing(print=(above, " " * count + below[count:])), amount)


def smashed_rim(part: Sound, rng: np.random.Generator, amount: Amount) -> Surface:
    """The rim is broken away on one side, up to the bolt holes or farther."""
    x, y = rim_point(rng)
    radius = rng.uniform(48, 72) * amount.extent
    return broken_from(part, rng, amount, hole=length(part.view.x - x, part.view.y - y) - radius)


def missing_sector(part: Sound, rng: np.random.Generator, amount: Amount) -> Surface:
    """A sector broken out, from the rim to the boss."""
    view = part.view
    middle, half = rng.uniform(-np.pi, np.pi), rng.uniform(0.38, 0.75) * amount.extent
    away = np.abs(np.angle(np.exp(1j * (np.arctan2(view.y, view.x) - middle)))) - half
    radius = length(view.x, view.y)
    return broken_from(part, rng, amount, hole=np.maximum(f32(away) * radius, BOSS - 14 - radius))


def puddle_on_cap(part: Sound, rng: np.random.Generator, amount: Amount) -> Surface:
    """A puddle of coolant that dried on the cap."""
    radius = rng.uniform(40, 60) * amount.extent
    centre = (float(rng.uniform(-50, 50)), float(rng.uniform(-50, 50)))
    return stain_surface(part, rng, amount, radius=radius, centre=centre, where=on_body(part.surface), film=PUDDLE)


def missing_seal(part: Sound, _rng: np.random.Generator, amount: Amount) -> Surface:
    """The seal ring was not put in: an empty groove."""
    return remade_cap(part, CapDrawing(seal=False), amount)


SMALL_ON_CAP: dict[str, Damage] = {
    "scratch": scratch_cap,
    "pit": pit_cap,
    "stain": stain_cap,
    "chipped_rim": chipped_rim,
    "missing_hole": missing_hole,
    "missing_print": missing_print,
}
LARGE_ON_CAP: dict[str, Damage] = {
    "smashed_rim": smashed_rim,
    "missing_sector": missing_sector,
    "large_stain": puddle_on_cap,
    "missing_seal": missing_seal,
}


def remade_cap(part: Sound, drawing: CapDrawing, amount: Amount) -> Surface:
    """The same cap made after another drawing."""
    return part.surface.blend(turn_cap(part.view, seed=part.seed, drawing=drawing), amount.strength)


def broken_from(part: Sound, rng: np.random.Generator, amount: Amount, *, hole: Field) -> Surface:
    """The cap without what lies in `hole`, a signed distance; the tray shows below."""
    view = part.view
    relief = 0.12 * noise(rng, view, along=1.1, across=1.1)
    tray = ground(part, relief=relief, colour=TRAY, shine=0.03, rough=0.45)
    return break_off(part, rng, amount, lost=hole, outline=length(view.x, view.y) - RADIUS, below=tray)


def rim_point(rng: np.random.Generator) -> tuple[float, float]:
    """A random point of the outline."""
    angle = rng.uniform(0, 2 * np.pi)
    return float(RADIUS * np.cos(angle)), float(RADIUS * np.sin(angle))


def on_body(surface: Surface) -> Field:
    """1 on the faces of the cap, 0 on the tray and in the holes."""
    return f32(np.clip((surface.height - (FACE - 5)) / 2, 0, 1))


def cap_point(rng: np.random.Generator, *, margin: float) -> tuple[float, float]:
    """A random point inside the rim, at least `margin` from every opening."""

    def clearance(points: View) -> Field:
        nearest = RIM[0] - RIM[1] - length(points.x, points.y)
        for distance, chamfer in openings(COMPLETE, points):
            nearest = np.minimum(nearest, distance - chamfer)
        return f32(nearest)

    return clear_point(rng, clearance, half=(RADIUS, RADIUS), margin=margin)
