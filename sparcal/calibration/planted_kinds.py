"""How each kind of planted defect changes the pixels around it.

A kind takes a square of the image, the defect's largest extent in pixels, a contrast in grey levels and a generator. It
returns the square with the defect in its middle, (p, p, 3) float, and where the defect lies, (p, p) between 0 and 1.
Its pixels change by `contrast` on average; kinds that only move or hide what is there change as much as that allows.
"""

from __future__ import annotations

from collections.abc import Callable

import cv2
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Drawn = tuple[Array, Array]  # the square with the defect, and where it lies
Kind = Callable[[Array, float, float, np.random.Generator], Drawn]


def scratch(square: Array, size: float, contrast: float, rng: np.random.Generator) -> Drawn:
    """A thin curved line, dark or bright, with a raised edge along one side that catches the light."""
    turn, bend = rng.uniform(0, np.pi), rng.uniform(-0.25, 0.25)
    u, v = _axes(square, turn)
    along = np.clip(u / size, -0.5, 0.5)
    off = v - bend * size * (along**2 - 0.25) * 2
    ends = np.maximum(np.abs(u) - size / 2, 0)
    width = max(0.6, min(0.03 * size, 2.5)) * rng.uniform(0.8, 1.3)
    taper = np.clip(1.15 - 1.2 * np.abs(2 * along) ** 4, 0.2, 1)
    distance = np.hypot(off, ends) / taper
    groove = np.exp(-((distance / width) ** 2))
    edge = np.exp(-(((off - 1.8 * width) / width) ** 2) - (ends / width) ** 2)
    sign = rng.choice([-1.0, 1.0])
    cover = _cover(np.maximum(groove, 0.7 * edge))
    return square + _at(contrast, _grey(sign * groove - 0.5 * sign * edge), cover), cover


def stain(square: Array, size: float, contrast: float, rng: np.random.Generator) -> Drawn:
    """A soft, irregular patch that tints what lies below it, at times stronger along its dried edge."""
    depth = _blob(square, size, rng, wobble=0.25)
    body = _step(depth, 0.18 * size)
    dried = np.exp(-((depth / (0.08 * size + 0.8)) ** 2)) * (rng.random() < 0.5)
    tint = rng.uniform(0.45, 1.0, 3)
    amount = (body + 0.5 * dried) * (square.mean(axis=2) / 255 + 0.35)
    added = _darker_or_brighter(square, contrast) * amount[..., None] * tint
    return square + _at(contrast, added, _cover(body)), _cover(body)


def hole(square: Array, size: float, contrast: float, rng: np.random.Generator) -> Drawn:
    """A pit or a chip: sharp edge, without the surface's texture inside, one side of its rim bright."""
    depth = _blob(square, size, rng, wobble=0.18)
    inside = _step(depth, 0.8)
    rim = np.exp(-(((depth + 0.8) / 0.9) ** 2))
    facing = np.cos(_angle(square) - rng.uniform(0, 2 * np.pi))
    flat = square + inside[..., None] * (cv2.GaussianBlur(square, (0, 0), max(1.0, size / 6)) - square)
    shade = _darker_or_brighter(square, contrast) * inside * (0.8 + 0.3 * facing) + 0.7 * rim * np.maximum(facing, 0)
    return flat + _at(contrast, _grey(shade), _cover(inside)), _cover(inside)


def particle(square: Array, size: float, contrast: float, rng: np.random.Generator) -> Drawn:
    """Something that lies on the part, a grain or a fibre, in its own colour, with a shadow beside it."""
    if rng.random() < 0.5:
        u, v = _axes(square, rng.uniform(0, np.pi))
        curl = 0.12 * size * np.sin(u / size * rng.uniform(3, 6) + rng.uniform(0, 6))
        thick = max(0.7, 0.07 * size)
        body = (np.exp(-(((v - curl) / thick) ** 4)) * _step(size / 2 - np.abs(u), 0.8)).astype(np.float32)
    else:
        body = _step(_blob(square, size, rng, wobble=0.35), 0.7)
    mean = square.mean(axis=(0, 1))
    hidden = square + body[..., None] * (mean - square)  # nothing of the surface shows through
    colour = rng.uniform(0.2, 1.0, 3) * (1 if mean.mean() < 128 else -1)
    fall = round(max(1.0, 0.12 * size))
    shadow = np.roll(body, (fall, fall), axis=(0, 1)) * (1 - body)
    added = body[..., None] * colour - 0.35 * shadow[..., None]
    return hidden + _at(contrast, added, _cover(body)), _cover(body)


def displaced(square: Array, size: float, contrast: float, rng: np.random.Generator) -> Drawn:
    """A piece of the surroundings, turned and put in the wrong place."""
    p = len(square)
    middle, turn, away = (p - 1) / 2, rng.uniform(40, 320), rng.uniform(0, 2 * np.pi)
    step = 0.35 * (p - size)
    matrix = cv2.getRotationMatrix2D((middle, middle), turn, 1.0)
    matrix[:, 2] += step * np.cos(away), step * np.sin(away)
    moved = cv2.warpAffine(square, matrix, (p, p), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101)
    body = _step(_blob(square, size, rng, wobble=0.1), 1.0)
    return square + _at_most(contrast, body[..., None] * (moved - square), body), _cover(body)


def missing(square: Array, size: float, contrast: float, rng: np.random.Generator) -> Drawn:
    """Print or structure that is missing: the place is filled with what surrounds it."""
    body = _step(_blob(square, size, rng, wobble=0.12), 1.2)
    outside, reach = (1 - body)[..., None], max(1.5, size / 3)
    weight = cv2.GaussianBlur(outside, (0, 0), reach)[..., None] + 1e-3
    around = cv2.GaussianBlur(square * outside, (0, 0), reach) / weight
    grain = (square - cv2.GaussianBlur(square, (0, 0), 1.5))[::-1, ::-1]  # the surface keeps its own noise
    return square + _at_most(contrast, body[..., None] * (around + 0.5 * grain - square), body), _cover(body)


def dent(square: Array, size: float, contrast: float, rng: np.random.Generator) -> Drawn:
    """A shallow hollow that only shows by its shading: one side darker, the other brighter."""
    u, v = _axes(square, rng.uniform(0, 2 * np.pi))
    reach = 0.32 * size
    bowl = np.exp(-((u / reach) ** 2 + (v / (reach * rng.uniform(0.6, 1.0))) ** 2))
    shading = bowl * u / reach * (square.mean(axis=2) / 255 + 0.3)
    cover = _cover(1.5 * np.abs(shading) / max(float(np.abs(shading).max()), 1e-6))
    return square + _at(contrast, _grey(shading), cover), cover


KINDS: dict[str, Kind] = {
    "scratch": scratch,
    "stain": stain,
    "hole": hole,
    "particle": particle,
    "displaced piece": displaced,
    "missing structure": missing,
    "dent": dent,
}


def _at(contrast: float, added: Array, cover: Array) -> Array:
    """A change, scaled so that the pixels of the defect change by `contrast` on average."""
    level = _level(added, cover)
    return added * np.float32(contrast / level) if level > 0 else added


def _at_most(contrast: float, added: Array, cover: Array) -> Array:
    """The same for a change that cannot be made stronger than it is."""
    level = _level(added, cover)
    return added * np.float32(min(1.0, contrast / level)) if level > 0 else added


def _level(added: Array, cover: Array) -> float:
    inside = cover > 0.5
    return float(np.abs(added[inside]).mean()) if inside.any() else 0.0


def _darker_or_brighter(square: Array, contrast: float) -> float:
    """Darker, unless the surface is too dark for that to show."""
    p = len(square)
    return -1.0 if float(square[p // 4 : -p // 4, p // 4 : -p // 4].mean()) > 1.2 * contrast else 1.0


def _axes(square: Array, turn: float) -> tuple[Array, Array]:
    """Coordinates from the middle of the square, turned."""
    p = len(square)
    y, x = np.mgrid[:p, :p].astype(np.float32) - (p - 1) / 2
    u = (x * np.cos(turn) + y * np.sin(turn)).astype(np.float32)
    v = (y * np.cos(turn) - x * np.sin(turn)).astype(np.float32)
    return u, v


def _angle(square: Array) -> Array:
    x, y = _axes(square, 0.0)
    angle: Array = np.arctan2(y, x)
    return angle


def _blob(square: Array, size: float, rng: np.random.Generator, *, wobble: float) -> Array:
    """How far inside an irregular closed outline each pixel lies, in pixels; negative outside."""
    x, y = _axes(square, rng.uniform(0, 2 * np.pi))
    y = y / rng.uniform(0.55, 1.0)
    angle = np.arctan2(y, x)
    waves = [rng.normal(0, wobble / m) * np.cos(m * angle + rng.uniform(0, 2 * np.pi)) for m in (2, 3, 5, 8)]
    radius = size / 2 * np.clip(0.9 + sum(waves), 0.35, 1.1)
    inside: Array = (radius - np.hypot(x, y)).astype(np.float32)
    return inside


def _step(depth: NDArray[np.floating], softness: float) -> Array:
    """0 outside, 1 inside, and a smooth rise over `softness` pixels about the edge."""
    t = np.clip(depth / max(softness, 1e-3) + 0.5, 0, 1)
    rise: Array = (t * t * (3 - 2 * t)).astype(np.float32)
    return rise


def _grey(profile: Array) -> Array:
    return np.repeat(profile[..., None], 3, axis=2).astype(np.float32)


def _cover(where: Array) -> Array:
    return np.clip(where, 0, 1).astype(np.float32)
