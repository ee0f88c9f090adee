"""What can go wrong with a plate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

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
from sparcal.rendering.plate import (
    HUB,
    PLATE,
    RIB_HALF,
    RUBBER,
    TOP,
    Drawing,
    holes,
    machine,
    plate_distance,
)
from sparcal.rendering.surface import Field, Surface, View, f32, inside, length, noise


def scratch_plate(part: Sound, rng: np.random.Generator, amount: Amount) -> Surface:
    """A scratch somewhere on the face."""
    return scratch_surface(part, rng, amount, half=(75, 60), where=on_metal(part.surface))


def dent_plate(part: Sound, rng: np.random.Generator, amount: Amount) -> Surface:
    """A knock beside the openings."""
    radius, squeeze, angle = rng.uniform(7, 11) * amount.extent, rng.uniform(0.75, 1.0), rng.uniform(0, np.pi)
    centre = plate_point(rng, margin=radius + 2)
    return bowl(part, amount, radius=radius, squeeze=squeeze, angle=angle, centre=centre)


def stain_plate(part: Sound, rng: np.random.Generator, amount: Amount) -> Surface:
    """Dried coolant."""
    radius = rng.uniform(10, 18) * amount.extent
    return stain_surface(
        part, rng, amount, radius=radius, centre=plate_point(rng, margin=8), where=on_metal(part.surface)
    )


def chipped_rib(part: Sound, rng: np.random.Generator, amount: Amount) -> Surface:
    """A piece broken out of a rib, with a rough fracture."""
    surface, view = part.surface, part.view
    x, half = rng.choice(Drawing().ribs), rng.uniform(6, 11) * amount.extent
    y = HUB[1] + rng.uniform(-1, 1) * (RIB_HALF[1] - half)
    reach = length((view.x - f32(x)) / (RIB_HALF[0] + 3), (view.y - y) / half)
    broken = inside((reach - 1) * half + noise(rng, view, along=2, across=2), 3)
    floor = TOP + 2 + 0.6 * noise(rng, view, along=1.6, across=1.6)
    lost = amount.strength * broken * np.maximum(surface.height - floor, 0)
    matt = replace(surface, rough=np.full_like(surface.rough, 0.5), mirror=surface.mirror * 0.7)
    return replace(surface.blend(matt, np.clip(lost, 0, 1)), height=surface.height - lost)


def missing_bore(part: Sound, rng: np.random.Generator, amount: Amount) -> Surface:
    """One corner is not drilled."""
    bores = Drawing().bores
    skipped = rng.integers(len(bores))
    left = tuple(bore for number, bore in enumerate(bores) if number != skipped)
    return remade_plate(part, Drawing(bores=left), amount)


def missing_text(part: Sound, rng: np.random.Generator, amount: Amount) -> Surface:
    """The engraver stopped early or started late: some letters in a row are blank."""
    text = Drawing().text
    count = int(rng.integers(1, 4))
    first = int(rng.integers(0, len(text) - count + 1))
    return remade_plate(part, Drawing(text=text[:first] + " " * count + text[first + count :]), amount)


def broken_corner(part: Sound, rng: np.random.Generator, amount: Amount) -> Surface:
    """A corner broken off the plate: a tenth of the image, more or less, shows the mat."""
    view = part.view
    aside, down = rng.choice((-1.0, 1.0), 2)
    lean, depth = rng.uniform(0.6, 0.95), rng.uniform(55, 95) * amount.extent
    edge = f32(np.cos(lean) * (PLATE[0] - aside * view.x) + np.sin(lean) * (PLATE[1] - down * view.y))
    bent = edge - f32(depth) + 0.0008 * view.x * view.y
    relief = 0.10 * noise(rng, view, along=0.7, across=0.7)
    mat = ground(part, relief=relief, colour=RUBBER, shine=0.012, rough=0.5)
    return break_off(part, rng, amount, lost=bent, outline=plate_distance(view), below=mat)


def puddle_on_plate(part: Sound, rng: np.random.Generator, amount: Amount) -> Surface:
    """A puddle of coolant that dried on the plate."""
    radius = rng.uniform(42, 62) * amount.extent
    centre = (float(rng.uniform(-50, 50)), float(rng.uniform(-45, 45)))
    return stain_surface(part, rng, amount, radius=radius, centre=centre, where=on_metal(part.surface), film=PUDDLE)


def crushed(part: Sound, rng: np.random.Generator, amount: Amount) -> Surface:
    """Something heavy fell on the plate: a wide, crumpled hollow that took the hub or the ribs along."""
    view, surface = part.view, part.surface
    radius = rng.uniform(38, 58) * amount.extent
    x, y = rng.uniform((-55, -45), (55, 45))
    reach = length(view.x - f32(x), view.y - f32(y)) / radius + 0.10 * noise(rng, view, along=9, across=9)
    hit = np.clip(1.6 * (1 - reach), 0, 1) * on_metal(surface)
    crumple = np.abs(noise(rng, view, along=7, across=7)) * 3 + np.abs(noise(rng, view, along=3, across=3))
    flat = replace(surface, height=f32(TOP - 8 + crumple), rough=np.full_like(surface.rough, 0.4))
    return surface.blend(flat, f32(amount.strength * 0.85 * hit))


SMALL_ON_PLATE: dict[str, Damage] = {
    "scratch": scratch_plate,
    "dent": dent_plate,
    "stain": stain_plate,
    "chipped_rib": chipped_rib,
    "missing_bore": missing_bore,
    "missing_text": missing_text,
}
LARGE_ON_PLATE: dict[str, Damage] = {"broken_corner": broken_corner, "large_stain": puddle_on_plate, "crushed": crushed}


def remade_plate(part: Sound, drawing: Drawing, amount: Amount) -> Surface:
    """The same part made after another drawing."""
    return part.surface.blend(machine(drawing, part.view, seed=part.seed), amount.strength)


def on_metal(surface: Surface) -> Field:
    """1 on the faces of the part, 0 on the mat and in the bores."""
    return f32(np.clip((surface.height - (TOP - 4)) / 2, 0, 1))


def plate_point(rng: np.random.Generator, *, margin: float) -> tuple[float, float]:
    """A random point of the plate at least `margin` from its edge and from every opening."""

    def clearance(points: View) -> Field:
        nearest = -plate_distance(points)
        for distance, chamfer in holes(Drawing(), points):
            nearest = np.minimum(nearest, distance - chamfer)
        return nearest

    return clear_point(rng, clearance, half=PLATE, margin=margin)
