"""The product without an outline: woven cloth that fills the image, every part another piece of the bolt.

A twill: each warp thread passes over two weft threads and under one, a step farther with each thread, which draws the
diagonal ribs of denim.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparcal.rendering.surface import Field, Surface, View, f32, noise, planes

SPACING = 9.2  # part units from thread to thread
REPEAT = 3  # threads after which the weave repeats
THICKNESS = 2.6  # half a thread's height
CRIMP = 1.5  # how far a thread goes up and down
WARP = (0.11, 0.19, 0.37)  # indigo
WEFT = (0.74, 0.70, 0.61)  # undyed
TABLE = (0.035, 0.034, 0.032)  # what shows through a hole


@dataclass(frozen=True, eq=False)
class ThreadPlaces:
    """Where each pixel lies in the weave: its thread's number and the place across it (-0.5 to 0.5), `(H, W)` each."""

    warp: Field
    across_warp: Field
    weft: Field
    across_weft: Field


def lay(view: View, rng: np.random.Generator) -> ThreadPlaces:
    """A piece cut from the bolt anywhere, stretched a little, its threads not quite straight."""
    start = rng.uniform(20 * REPEAT, 21 * REPEAT, 2)
    stretch = 1 + np.clip(rng.normal(0, 0.006, 2), -0.015, 0.015)
    u = (view.x + 0.8 * noise(rng, view, along=26, across=60)) * f32(stretch[0] / SPACING) + f32(start[0])
    v = (view.y + 0.8 * noise(rng, view, along=60, across=26)) * f32(stretch[1] / SPACING) + f32(start[1])
    warp, weft = f32(np.floor(u)), f32(np.floor(v))
    return ThreadPlaces(warp, u - warp - f32(0.5), weft, v - weft - f32(0.5))


def weave(view: View, *, seed: int, weft_thickness: Field | float = 1.0) -> Surface:
    """The surface of one piece of cloth; `seed` decides where it was cut and how its threads were spun.

    Args:
        weft_thickness: `(H, W)`, factor on the thickness of the weft threads; 0 where one is missing.
    """
    rng = np.random.default_rng([seed, 0])
    threads = lay(view, rng)
    spun = rng.standard_normal((4, 50 * REPEAT))  # thickness and shade of each warp and weft thread
    warp, weft = threads.warp.astype(int), threads.weft.astype(int)
    down = threads.weft + threads.across_weft + 0.5
    aside = threads.warp + threads.across_warp + 0.5

    thick_warp = f32(0.98 + 0.05 * spun[0, warp])
    thick_weft = f32(0.98 + 0.05 * spun[1, weft]) * f32(weft_thickness)
    over = 1 - 2 * dip(threads.warp + down)
    under = 2 * dip(threads.weft + aside) - 1
    warp_height = yarn(threads.across_warp, thick_warp) + CRIMP * over
    weft_height = yarn(threads.across_weft, thick_weft) + CRIMP * under
    upper = warp_height >= weft_height

    along, across = np.where(upper, down, aside), np.where(upper, threads.across_warp, threads.across_weft)
    twist = f32(np.sin(2 * np.pi * (2 * along + 1.1 * across + 7 * np.where(upper, spun[2, warp], spun[3, weft]))))
    fibres = np.where(upper, noise(rng, view, along=0.6, across=2.5), noise(rng, view, along=2.5, across=0.6))
    gap = np.maximum(warp_height, weft_height) < -THICKNESS
    height = np.maximum(np.maximum(warp_height, weft_height), -THICKNESS - 1)
    height += np.where(gap, 0, 0.14 * twist + 0.12 * fibres)
    shade = 1 + 0.05 * np.where(upper, spun[2, warp], spun[3, weft]) + 0.05 * fibres + 0.05 * twist
    dye = planes(rng.normal(1, 0.02, 3)) * (1 + 0.04 * noise(rng, view, along=18, across=40))
    return dress(f32(height), upper, gap, colour=f32(np.maximum(shade, 0.3) * dye))


def dip(place: Field) -> Field:
    """1 where a thread passes the one crossing that differs from the others of a repeat, 0 on the way between."""
    away = np.abs((place - 0.5 + REPEAT / 2) % REPEAT - REPEAT / 2)
    return f32(0.5 + 0.5 * np.cos(np.pi * np.minimum(away, 1)))


def yarn(across: Field, thickness: Field) -> Field:
    """Height of a round thread over its axis; far below the cloth beside it."""
    reach = 2 * across / np.maximum(thickness, 1e-3)
    round_ = THICKNESS * thickness * np.sqrt(np.maximum(1 - reach**2, 0))
    return f32(np.where(np.abs(reach) < 1, round_, -3 * THICKNESS))


def dress(height: Field, upper: NDArray[np.bool_], gap: NDArray[np.bool_], *, colour: Field) -> Surface:
    """`height` in its materials: dyed warp, natural weft, and the table where a gap shows it."""
    cloth = np.where(upper, planes(WARP), planes(WEFT)) * colour
    diffuse = np.where(gap, planes(TABLE), cloth)
    mirror = np.where(gap, 0.01, 0.035 * np.ones_like(diffuse))
    rough = np.stack([np.full_like(height, 0.5), np.full_like(height, 0.32)])
    grain = np.where(upper, planes((0, 1)), planes((1, 0)))
    return Surface(height, f32(diffuse), f32(mirror), f32(rough), f32(grain))
