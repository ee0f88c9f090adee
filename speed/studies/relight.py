"""Another lamp and another camera for a photograph that was taken under one: what a lot of real parts is made from."""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]
Mask = NDArray[np.bool_]

FARTHEST = 9  # pixels by which a camera is moved at most
NEAREST = 4  # and at least: less is what a fixture allows anyway


@dataclass(frozen=True)
class Recipe:
    """What another station does to a photograph; the default does nothing.

    Args:
        gamma: of the camera.
        gradient: rise of the light across the image, to the right and down, as a share; 0.35 is 35 % at an edge.
        tint: factor on red, green and blue.
        shift: of the part, right and down, in pixels.
        noise: of the sensor, in grey levels.
    """

    gamma: float = 1.0
    gradient: tuple[float, float] = (0.0, 0.0)
    tint: tuple[float, float, float] = (1.0, 1.0, 1.0)
    brightness: float = 1.0
    shift: tuple[int, int] = (0, 0)
    noise: float = 0.0


def draw_recipe(rng: np.random.Generator, *, shift: tuple[int, int] = (0, 0)) -> Recipe:
    """A lamp and exposure as another station may have them."""
    gamma, slope, angle = rng.uniform(0.8, 1.35), rng.uniform(0.1, 0.35), rng.uniform(0, 2 * math.pi)
    red, green, blue = rng.uniform(0.75, 1.25, 3)
    return Recipe(
        gamma=float(gamma),
        gradient=(float(slope * math.cos(angle)), float(slope * math.sin(angle))),
        tint=(float(red), float(green), float(blue)),
        brightness=float(rng.uniform(0.7, 1.0)),
        shift=shift,
        noise=float(rng.uniform(1.0, 3.0)),
    )


def draw_shift(rng: np.random.Generator) -> tuple[int, int]:
    """How far right and down a camera was moved."""
    right, down = rng.integers(NEAREST, FARTHEST + 1, 2) * rng.choice((-1, 1), 2)
    return int(right), int(down)


def relight(image: Image, recipe: Recipe, *, seed: int) -> Image:
    """`image` `(H, W, 3)` as the other station would have taken it; `seed` decides the sensor noise."""
    if recipe == Recipe():
        return image
    height, width = image.shape[:2]
    across, down = np.linspace(-1, 1, width, dtype=np.float32), np.linspace(-1, 1, height, dtype=np.float32)
    light = 1 + recipe.gradient[0] * across + recipe.gradient[1] * down[:, None]
    factor = recipe.brightness * np.array(recipe.tint, np.float32)
    lit = 255 * (_moved(image, recipe.shift).astype(np.float32) / 255) ** recipe.gamma * light[..., None] * factor
    lit += recipe.noise * np.random.default_rng(seed).standard_normal(lit.shape, dtype=np.float32)
    return np.clip(np.round(lit), 0, 255).astype(np.uint8)


def move_mask(mask: Mask, shift: tuple[int, int]) -> Mask:
    """`mask` moved along with the part."""
    return _moved(mask.astype(np.uint8), shift).astype(bool)


def _moved(pixels: Image, shift: tuple[int, int]) -> Image:
    """`pixels` moved right and down by whole pixels; the edge goes on as it was."""
    right, down = shift
    matrix = np.array([[1, 0, right], [0, 1, down]], np.float32)
    size = (pixels.shape[1], pixels.shape[0])
    moved = cv2.warpAffine(pixels, matrix, size, flags=cv2.INTER_NEAREST, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(moved, np.uint8)
