"""What can go wrong with cloth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sparcal.rendering.damage import Amount, Damage, Film, Sound, bent_line, ground, stain_surface
from sparcal.rendering.fabric import TABLE, THICKNESS, ThreadPlaces, lay, weave
from sparcal.rendering.surface import Field, Surface, f32, inside, length, noise, polyline_distance

OIL = Film((0.13, 0.11, 0.07), lumps=6, bulge=0.16, edge=0.6)
SOAKED = Film((0.13, 0.11, 0.07), lumps=18, bulge=0.2, edge=0)
MIDDLE = (80.0, 80.0)  # where a small defect may lie, so that it stays in the image


def missing_weft(part: Sound, rng: np.random.Generator, amount: Amount) -> Surface:
    """Two picks were not inserted over some length: a bare line across the cloth."""
    reach = rng.uniform(35, 80) * amount.extent
    bare = weft_piece(part, rng, reach=reach, count=2)
    return rewoven(part, amount, weft_thickness=1 - bare)


def slub(part: Sound, rng: np.random.Generator, amount: Amount) -> Surface:
    """A weft thread spun too thick for a few crossings."""
    reach = rng.uniform(22, 42) * amount.extent
    return rewoven(part, amount, weft_thickness=1 + 1.1 * weft_piece(part, rng, reach=reach, count=1))


def oil_spot(part: Sound, rng: np.random.Generator, amount: Amount) -> Surface:
    """A drop of machine oil."""
    radius = rng.uniform(9, 16) * amount.extent
    return stain_surface(part, rng, amount, radius=radius, centre=spot(rng), where=1.0, film=OIL)


def frayed_hole(part: Sound, rng: np.random.Generator, amount: Amount) -> Surface:
    """A small hole with frayed threads."""
    x, y = spot(rng)
    return torn(part, rng, amount, lost=length(part.view.x - x, part.view.y - y) - rng.uniform(8, 12) * amount.extent)


def blade_cut(part: Sound, rng: np.random.Generator, amount: Amount) -> Surface:
    """A hairline cut: a blade passed over the cloth and parted the upper threads."""
    surface, view = part.surface, part.view
    heading, reach, width = rng.uniform(0, 2 * np.pi), rng.uniform(40, 80) * amount.extent, rng.uniform(1.3, 1.9)
    distance, along = polyline_distance(view, bent_line(rng, heading=heading, reach=reach, half=MIDDLE))
    depth = amount.strength * np.sqrt(np.clip(6 * along * (1 - along), 0, 1))
    parted = depth * inside(distance - width, width)
    fluff = depth * inside(np.abs(distance - width - 1) - 1.2, 1.2) * (0.6 + 0.3 * noise(rng, view, along=1, across=1))
    dark = surface.blend(replace(surface, diffuse=0.2 * surface.diffuse), np.clip(parted, 0, 1))
    return replace(dark, height=surface.height + f32(0.8 * fluff - 2.5 * parted))


def torn_out(part: Sound, rng: np.random.Generator, amount: Amount) -> Surface:
    """A piece is torn out: a tenth of the image, more or less, shows the table between frayed ends."""
    view = part.view
    x, y = rng.uniform(-60, 60, 2)
    long, short = rng.uniform(50, 75) * amount.extent, rng.uniform(35, 50) * amount.extent
    if rng.random() < 0.5:
        long, short = short, long
    reach = np.sqrt(length((view.x - f32(x)) / long, (view.y - f32(y)) / short))
    lost = (reach - 1) * short * 1.5 + 3 * noise(rng, view, along=12, across=12)
    return torn(part, rng, amount, lost=f32(lost))


def large_oil_stain(part: Sound, rng: np.random.Generator, amount: Amount) -> Surface:
    """The piece lay in oil."""
    radius = rng.uniform(42, 62) * amount.extent
    centre = (float(rng.uniform(-60, 60)), float(rng.uniform(-60, 60)))
    return stain_surface(part, rng, amount, radius=radius, centre=centre, where=1.0, film=SOAKED)


def crease(part: Sound, rng: np.random.Generator, amount: Amount) -> Surface:
    """The cloth was folded: a worn ridge through the whole image, threads and all."""
    view = part.view
    heading, width = rng.uniform(0, 2 * np.pi), rng.uniform(16, 24) * amount.extent
    distance, _ = polyline_distance(view, bent_line(rng, heading=heading, reach=420, half=(40, 40)))
    reach = distance / f32(width) + 0.08 * noise(rng, view, along=14, across=14)
    ridge = f32(np.maximum(1 - np.abs(reach), 0) ** 1.5)
    # The crest is what rubs against everything: the dye wears off first there.
    worn = replace(part.surface, diffuse=0.5 * part.surface.diffuse + 0.3)
    folded = part.surface.blend(worn, amount.strength * inside(np.abs(distance) - 3, 3))
    return replace(folded, height=part.surface.height + f32(0.75 * width * amount.strength) * ridge)


SMALL_ON_FABRIC: dict[str, Damage] = {
    "missing_weft": missing_weft,
    "slub": slub,
    "oil_spot": oil_spot,
    "hole": frayed_hole,
    "cut": blade_cut,
}
LARGE_ON_FABRIC: dict[str, Damage] = {"torn_out": torn_out, "large_oil_stain": large_oil_stain, "crease": crease}


def rewoven(part: Sound, amount: Amount, *, weft_thickness: Field) -> Surface:
    """The same piece woven with other weft threads."""
    return part.surface.blend(weave(part.view, seed=part.seed, weft_thickness=weft_thickness), amount.strength)


def threads_of(part: Sound) -> ThreadPlaces:
    """The threads of the part, as they were laid."""
    return lay(part.view, np.random.default_rng([part.seed, 0]))


def weft_piece(part: Sound, rng: np.random.Generator, *, reach: float, count: int) -> Field:
    """1 on a random piece of `count` neighbouring weft threads, `reach` long, 0 elsewhere, a short passage between."""
    view, (x, y) = part.view, spot(rng)
    threads = threads_of(part)
    nearest = np.argmin(np.abs(view.x - x) + np.abs(view.y - y))
    number = threads.weft - threads.weft.ravel()[nearest]
    return f32((number >= 0) * (number < count) * np.clip((reach / 2 - np.abs(view.x - x)) / 6 + 0.5, 0, 1))


def torn(part: Sound, rng: np.random.Generator, amount: Amount, *, lost: Field) -> Surface:
    """The cloth without what lies in `lost`, a signed distance: each thread ends where it will."""
    surface, threads = part.surface, threads_of(part)
    upper = surface.grain[1] > 0.5
    number = np.where(upper, threads.warp, threads.weft).astype(int)
    ends = rng.normal(0, 1.8, (2, 150))
    frayed = lost + f32(np.where(upper, ends[0, number], ends[1, number]))
    gone = inside(frayed + 0.8 * noise(rng, part.view, along=1.2, across=1.2), 1)
    deep = np.full_like(surface.height, -3 * THICKNESS)
    table = ground(part, relief=deep, colour=TABLE, shine=0.01, rough=0.5)
    return surface.blend(surface.blend(table, gone), amount.strength)


def spot(rng: np.random.Generator) -> tuple[float, float]:
    """A random point of the image, not too near its edge."""
    x, y = rng.uniform(-1, 1, 2) * MIDDLE
    return float(x), float(y)
