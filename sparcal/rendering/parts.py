"""Rendered demonstration parts: training parts from one station, a lot from others, defects with exact masks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sparcal.errors import DataError
from sparcal.rendering.damage import Amount, Sound, spoil
from sparcal.rendering.photograph import Light, photograph
from sparcal.rendering.products import PRODUCTS, Product, ProductName
from sparcal.rendering.surface import view_part

__all__ = [
    "LOT_LIGHTS",
    "MOVED_CAMERA",
    "PRODUCTS",
    "TRAINING_LIGHT",
    "DemoSet",
    "Light",
    "Part",
    "ProductName",
    "Shift",
    "make_demo",
    "random_light",
    "render_part",
    "write_demo",
]

Shift = Literal["lights", "random", "none", "moved", "lights+moved"]

TRAINING_LIGHT = Light("training", (-0.55, -0.75, 1.25))
LOT_LIGHTS: tuple[Light, ...] = (
    Light("warm-right", (1.05, -0.30, 0.75), (1.18, 1.00, 0.76)),
    Light("cool-low-left", (-1.20, 0.35, 0.55), (0.84, 0.98, 1.16), exposure=1.1),
    Light("front-long-exposure", (0.35, 1.00, 0.95), exposure=1.35),
    Light("overhead-diffuse", (0.10, -0.25, 1.50), ambient=0.5, exposure=0.7, spread=0.3),
    Light("back-short-exposure", (0.55, -1.10, 0.65), (1.00, 1.03, 0.95), exposure=0.6),
)
MOVED_CAMERA = (6.0, -4.0)  # right and down, in pixels of a 256-pixel image
SMALLEST_EXTENT, LARGEST_EXTENT = 0.25, 2.0
SMALLEST = 64  # below this, engraving and scratches are thinner than half a pixel


@dataclass(frozen=True, eq=False)
class Part:
    """One photographed part.

    Args:
        image: `(H, W, 3)` uint8.
        mask: `(H, W)` bool, True where the defect changed the surface; all False on a good part.
        defect: one of the product's, or None for a good part.
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
    product: ProductName = "plate",
    defect: str | None = None,
    strength: float = 1.0,
    extent: float = 1.0,
    shift: tuple[float, float] = (0.0, 0.0),
    size: int = 256,
) -> Part:
    """Photograph one part: `seed` decides its tool marks, its seat in the fixture, its defect and the sensor noise.

    Args:
        defect: one of the product's, small or large; None for a good part.
        strength: above 0 (nothing to see) up to 1 (plain to a person).
        extent: factor on the defect's length and width; a feature that is missing keeps its own.
        shift: of the part in the image, right and down, in pixels.
        size: edge of the square image in pixels.
    """
    made = find_product(product)
    if seed < 0:
        raise DataError(f"render_part needs a seed of 0 or more, got {seed}: choose another.")
    if size < SMALLEST:
        raise DataError(
            f"render_part needs a size of at least {SMALLEST} pixels, got {size}: smaller parts lose detail."
        )
    if defect is not None and defect not in made.defects:
        raise DataError(f"unknown defect {defect!r} of a {product}; choose from {', '.join(made.defects)}.")
    if not 0 < strength <= 1:
        raise DataError(f"strength must be above 0 and at most 1, got {strength}: for a good part, give no defect.")
    if not SMALLEST_EXTENT <= extent <= LARGEST_EXTENT:
        raise DataError(
            f"extent must be from {SMALLEST_EXTENT} to {LARGEST_EXTENT}, got {extent}: "
            "for something still larger or smaller, choose another defect."
        )
    play = np.random.default_rng([seed, 2])
    seat = np.clip(play.normal(0, 0.6, 2), -1.5, 1.5) * size / 256
    angle = float(np.clip(play.normal(0, 0.0035), -0.01, 0.01))
    view = view_part(size, shift=(shift[0] + float(seat[0]), shift[1] + float(seat[1])), angle=angle)
    sound = Sound(made.make(view, seed), view, seed)
    image = photograph(sound.surface, view, light, seed=seed)
    mask = np.zeros(image.shape[:2], bool)
    if defect is not None:
        spoilt, mask = spoil(sound, made.defects[defect], Amount(strength, extent))
        seen = photograph(spoilt, view, light, seed=seed)
        # A large piece takes its shadow along, beyond the mask; a small defect keeps to its own.
        image = seen if defect in made.large else np.where(mask[..., None], seen, image)
    return Part(image, mask, defect, light.name, f"{defect or 'good'}_{seed}")


def find_product(name: ProductName) -> Product:
    """The product of that name."""
    if name not in PRODUCTS:
        raise DataError(f"unknown product {name!r}; choose from {', '.join(PRODUCTS)}.")
    return PRODUCTS[name]


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
    product: ProductName = "plate",
) -> DemoSet:
    """Training parts, and a lot of good and bad parts that were photographed elsewhere; small defects in turn.

    Args:
        shift: how the lot differs from training. `lights`: five other stations in turn; `random`: a new light for
            each part; `moved`: the camera sits a few pixels off; `lights+moved`: both; `none`: not at all.
    """
    small = tuple(find_product(product).small)
    if shift not in get_args(Shift):
        raise DataError(f"unknown shift {shift!r}; choose from {', '.join(get_args(Shift))}.")
    if seed < 0:
        raise DataError(f"make_demo needs a seed of 0 or more, got {seed}: choose another.")
    if min(train, good, bad) < 0:
        raise DataError(f"make_demo needs counts of 0 or more, got train={train}, good={good}, bad={bad}.")

    def lot_part(number: int, part_seed: int, defect: str | None) -> Part:
        return render_part(
            part_seed,
            light=lot_light(shift, number, part_seed),
            product=product,
            defect=defect,
            strength=strength,
            shift=lot_offset(shift, size),
            size=size,
        )

    trained = [
        replace(render_part(s, light=TRAINING_LIGHT, product=product, size=size), name=f"train_{n:03d}")
        for n, s in enumerate(part_seeds(seed, 0, train))
    ]
    sound = [replace(lot_part(n, s, None), name=f"good_{n:03d}") for n, s in enumerate(part_seeds(seed, 1, good))]
    spoilt = [
        replace(lot_part(n, s, small[n % len(small)]), name=f"{small[n % len(small)]}_{n:03d}")
        for n, s in enumerate(part_seeds(seed, 2, bad))
    ]
    return DemoSet(trained, sound, spoilt)


def lot_light(shift: Shift, number: int, part_seed: int) -> Light:
    """The light over part `number` of a lot."""
    if shift in ("lights", "lights+moved"):
        return LOT_LIGHTS[number % len(LOT_LIGHTS)]
    return random_light(part_seed) if shift == "random" else TRAINING_LIGHT


def lot_offset(shift: Shift, size: int) -> tuple[float, float]:
    """How far right and down the parts of a lot lie in their image, in pixels."""
    if shift not in ("moved", "lights+moved"):
        return (0.0, 0.0)
    return (MOVED_CAMERA[0] * size / 256, MOVED_CAMERA[1] * size / 256)


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
