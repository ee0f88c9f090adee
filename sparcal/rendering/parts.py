"""Rendered demonstration parts: training parts from one station, a lot from others, defects with exact masks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sparcal.errors import DataError
from sparcal.rendering.defects import DEFECTS, spoil
from sparcal.rendering.photograph import Light, photograph
from sparcal.rendering.workpiece import Drawing, machine, view_part

__all__ = [
    "DEFECTS",
    "LOT_LIGHTS",
    "MOVED_CAMERA",
    "TRAINING_LIGHT",
    "DemoSet",
    "Light",
    "Part",
    "Shift",
    "make_demo",
    "random_light",
    "render_part",
    "write_demo",
]

Shift = Literal["lights", "random", "none", "moved"]

TRAINING_LIGHT = Light("training", (-0.55, -0.75, 1.25))
LOT_LIGHTS: tuple[Light, ...] = (
    Light("warm-right", (1.05, -0.30, 0.75), (1.18, 1.00, 0.76)),
    Light("cool-low-left", (-1.20, 0.35, 0.55), (0.84, 0.98, 1.16), exposure=1.1),
    Light("front-long-exposure", (0.35, 1.00, 0.95), exposure=1.35),
    Light("overhead-diffuse", (0.10, -0.25, 1.50), ambient=0.5, exposure=0.7, spread=0.3),
    Light("back-short-exposure", (0.55, -1.10, 0.65), (1.00, 1.03, 0.95), exposure=0.6),
)
MOVED_CAMERA = (6.0, -4.0)  # right and down, in pixels of a 256-pixel image
SMALLEST = 64  # below this, engraving and scratches are thinner than half a pixel


@dataclass(frozen=True, eq=False)
class Part:
    """One photographed part.

    Args:
        image: `(H, W, 3)` uint8.
        mask: `(H, W)` bool, True where the defect changed the surface; all False on a good part.
        defect: one of DEFECTS, or None for a good part.
        light: name of the light it was taken under.
        name: unique within a DemoSet; the stem of its file.
    """

    image: NDArray[np.uint8]
    mask: NDArray[np.bool_]
    defect: str | None
    light: str
    name: str


@dataclass(frozen=True, eq=False)
class DemoSet:
    """Good training parts from one station, and the good and bad parts of a lot from elsewhere."""

    train: list[Part]
    lot_good: list[Part]
    lot_bad: list[Part]


def render_part(
    seed: int,
    *,
    light: Light,
    defect: str | None = None,
    strength: float = 1.0,
    shift: tuple[float, float] = (0.0, 0.0),
    size: int = 256,
) -> Part:
    """Photograph one part: `seed` decides its tool marks, its seat in the fixture, its defect and the sensor noise.

    Args:
        strength: above 0 (nothing to see) up to 1 (plain to a person).
        shift: of the part in the image, right and down, in pixels.
        size: edge of the square image in pixels.
    """
    if seed < 0:
        raise DataError(f"render_part needs a seed of 0 or more, got {seed}: choose another.")
    if size < SMALLEST:
        raise DataError(
            f"render_part needs a size of at least {SMALLEST} pixels, got {size}: smaller parts lose detail."
        )
    if defect is not None and defect not in DEFECTS:
        raise DataError(f"unknown defect {defect!r}; choose from {', '.join(DEFECTS)}.")
    if not 0 < strength <= 1:
        raise DataError(f"strength must be above 0 and at most 1, got {strength}: for a good part, give no defect.")
    play = np.random.default_rng([seed, 2])
    seat = np.clip(play.normal(0, 0.6, 2), -1.5, 1.5) * size / 256
    angle = float(np.clip(play.normal(0, 0.0035), -0.01, 0.01))
    view = view_part(size, shift=(shift[0] + float(seat[0]), shift[1] + float(seat[1])), angle=angle)
    surface = machine(Drawing(), view, seed=seed)
    image = photograph(surface, view, light, seed=seed)
    mask = np.zeros(image.shape[:2], bool)
    if defect is not None:
        spoilt, mask = spoil(surface, view, defect=defect, strength=strength, seed=seed)
        image = np.where(mask[..., None], photograph(spoilt, view, light, seed=seed), image)
    return Part(image, mask, defect, light.name, f"{defect or 'good'}_{seed}")


def random_light(seed: int) -> Light:
    """A station nobody has seen: lamp anywhere above 28 degrees, warm to cool, dim to bright."""
    rng = np.random.default_rng([seed, 3])
    around, above = rng.uniform(0, 2 * np.pi), np.deg2rad(rng.uniform(28, 75))
    distance, warmth = rng.uniform(1.2, 1.8), rng.uniform(-0.14, 0.14)
    flat = distance * np.cos(above)
    return Light(
        name=f"random-{seed}",
        position=(float(flat * np.cos(around)), float(flat * np.sin(around)), float(distance * np.sin(above))),
        colour=(float(1 + warmth), 1.0, float(1 - warmth)),
        intensity=float(rng.uniform(0.75, 1.25)),
        ambient=float(rng.uniform(0.15, 0.40)),
        exposure=float(rng.uniform(0.75, 1.25)),
        spread=float(rng.uniform(0.05, 0.25)),
    )


def make_demo(
    seed: int,
    *,
    train: int = 40,
    good: int = 40,
    bad: int = 40,
    shift: Shift = "lights",
    strength: float = 1.0,
    size: int = 256,
) -> DemoSet:
    """Training parts, and a lot of good and bad parts that were photographed elsewhere.

    Args:
        shift: how the lot differs from training. `lights`: five other stations in turn; `random`: a new light for
            each part; `moved`: the camera sits a few pixels off; `none`: not at all.
    """
    if shift not in get_args(Shift):
        raise DataError(f"unknown shift {shift!r}; choose from {', '.join(get_args(Shift))}.")
    if seed < 0:
        raise DataError(f"make_demo needs a seed of 0 or more, got {seed}: choose another.")
    if min(train, good, bad) < 0:
        raise DataError(f"make_demo needs counts of 0 or more, got train={train}, good={good}, bad={bad}.")
    moved = (MOVED_CAMERA[0] * size / 256, MOVED_CAMERA[1] * size / 256) if shift == "moved" else (0.0, 0.0)

    def lot_light(number: int, part_seed: int) -> Light:
        if shift == "lights":
            return LOT_LIGHTS[number % len(LOT_LIGHTS)]
        return random_light(part_seed) if shift == "random" else TRAINING_LIGHT

    trained = [
        replace(render_part(s, light=TRAINING_LIGHT, size=size), name=f"train_{n:03d}")
        for n, s in enumerate(part_seeds(seed, 0, train))
    ]
    sound = [
        replace(render_part(s, light=lot_light(n, s), shift=moved, size=size), name=f"good_{n:03d}")
        for n, s in enumerate(part_seeds(seed, 1, good))
    ]
    spoilt = []
    for n, s in enumerate(part_seeds(seed, 2, bad)):
        defect = DEFECTS[n % len(DEFECTS)]
        part = render_part(s, light=lot_light(n, s), defect=defect, strength=strength, shift=moved, size=size)
        spoilt.append(replace(part, name=f"{defect}_{n:03d}"))
    return DemoSet(trained, sound, spoilt)


def part_seeds(seed: int, group: int, count: int) -> list[int]:
    """Seeds of the parts of one group; asking for more leaves the first ones as they are."""
    return [int(s) for s in np.random.SeedSequence([seed, group]).generate_state(count)]


def write_demo(demo: DemoSet, folder: Path) -> None:
    """Write the parts as PNG files: train/good, test/good, test/<defect>, ground_truth/<defect>/<name>_mask.png."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"write_demo needs a new or empty folder, got {folder}: choose another, or empty it first.")
    for part in demo.train:
        write_png(part.image, folder / "train" / "good" / f"{part.name}.png")
    for part in (*demo.lot_good, *demo.lot_bad):
        write_png(part.image, folder / "test" / (part.defect or "good") / f"{part.name}.png")
        if part.defect is not None:
            mask = part.mask.astype(np.uint8) * 255
            write_png(mask, folder / "ground_truth" / part.defect / f"{part.name}_mask.png")


def write_png(pixels: NDArray[np.uint8], path: Path) -> None:
    """Write one image and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, format="PNG")
