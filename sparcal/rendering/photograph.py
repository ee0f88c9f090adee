"""From a surface and a lamp to a photograph: point light, tool-mark reflections, shadows, lens and sensor."""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from sparcal.errors import DataError
from sparcal.rendering.surface import FRAME, Field, Surface, View, f32, planes
from sparcal.settings import finite_number, finite_numbers, text

LOWEST_LAMP = 0.2  # image widths; the part itself is a tenth of one high


@dataclass(frozen=True)
class Light:
    """One inspection station: a lamp, what the room adds, and the camera's exposure.

    Args:
        position: of the lamp over the middle of the image, in image widths: right, down, up.
        colour: red, green, blue of the lamp, about 1 each.
        intensity: of the lamp; 1 is the training station.
        ambient: light of the room that comes from everywhere.
        exposure: factor on all light before the sensor.
        spread: angular size of the lamp; a larger one softens shadows and highlights.
    """

    name: str
    position: tuple[float, float, float]
    colour: tuple[float, float, float] = (1.0, 1.0, 1.0)
    intensity: float = 1.0
    ambient: float = 0.24
    exposure: float = 1.0
    spread: float = 0.08

    def __post_init__(self) -> None:
        text(self.name, "Light.name")
        finite_numbers(self.position, "Light.position", count=3)
        finite_numbers(self.colour, "Light.colour", count=3)
        for name in ("intensity", "ambient", "exposure", "spread"):
            finite_number(getattr(self, name), f"Light.{name}")
        if not self.position[2] >= LOWEST_LAMP:
            raise DataError(
                f"Light {self.name!r} needs its lamp at least {LOWEST_LAMP} image widths above the mat, "
                f"got {self.position[2]}: raise the third number of its position."
            )
        amounts = (*self.colour, self.intensity, self.ambient, self.exposure, self.spread)
        if not min(amounts) >= 0:
            raise DataError(
                f"Light {self.name!r} needs colour, intensity, ambient, exposure and spread of 0 or more, "
                f"got {min(amounts)}: light cannot be taken away."
            )


def photograph(surface: Surface, view: View, light: Light, *, seed: int) -> NDArray[np.uint8]:
    """The image `(H, W, 3)` that a camera straight above takes; `seed` decides the sensor noise."""
    radiance = np.moveaxis(light.exposure * shade(surface, view, light), 0, -1)
    radiance = f32(cv2.GaussianBlur(np.ascontiguousarray(radiance), (0, 0), 0.55))
    axis = f32(np.linspace(-1, 1, len(radiance)))
    radiance *= (1 - 0.16 * (axis[:, None] ** 2 + axis**2))[..., None]  # the lens darkens towards the corners
    # Photon noise grows with the root of the signal, read-out noise is constant; demosaicing smears both a little.
    grain = np.random.default_rng([seed, 4]).standard_normal(radiance.shape, dtype=np.float32)
    grain = 1.6 * f32(cv2.GaussianBlur(grain, (0, 0), 0.5))
    return develop(radiance + np.sqrt(0.00022 * radiance + 0.000004) * grain)


def develop(radiance: Field) -> NDArray[np.uint8]:
    """Linear light to 8-bit display values; highlights roll off above a knee instead of clipping hard."""
    knee = 0.6
    over = np.maximum(radiance - knee, 0)
    soft = np.minimum(radiance, knee) + (1 - knee) * (1 - np.exp(-over / (1 - knee)))
    levels: NDArray[np.uint8] = np.round(255 * np.clip(soft, 0, 1) ** (1 / 2.2)).astype(np.uint8)
    return levels


def shade(surface: Surface, view: View, light: Light) -> Field:
    """Linear radiance `(3, H, W)` towards the camera: lamp and room, each scattered and mirrored."""
    normal = surface_normals(surface.height, view.pixel)
    lamp, distance = towards_lamp(surface.height, light)
    lit = shadow(surface.height, view.pixel, light) * np.maximum(dot(normal, lamp), 0)
    lamplight = (1.6 * light.intensity * (1.5 / distance) ** 2 * lit) * planes(light.colour)
    roomlight = light.ambient * openness(surface.height, view.pixel)
    direct = surface.diffuse / math.pi + surface.mirror * gloss(surface, normal, lamp, light.spread)
    return lamplight * direct + roomlight * (surface.diffuse + surface.mirror * room(normal))


def dot(a: Field, b: Field) -> Field:
    """Scalar products `(H, W)` of two fields of vectors `(3, H, W)`."""
    return f32(a[0] * b[0] + a[1] * b[1] + a[2] * b[2])


def unit(vectors: Field) -> Field:
    """`vectors` scaled to length 1."""
    return vectors / f32(np.sqrt(dot(vectors, vectors)))


def surface_normals(height: Field, pixel: float) -> Field:
    """Unit vectors `(3, H, W)` that stand upright on a height map."""
    down, right = np.gradient(height, pixel)
    return unit(np.stack([-f32(right), -f32(down), np.ones_like(height)]))


def towards_lamp(height: Field, light: Light) -> tuple[Field, Field]:
    """Unit vectors from each point to the lamp, and its distance in image widths."""
    size = len(height)
    axis = f32((np.arange(size) + 0.5) / size - 0.5)
    x, y, z = light.position
    right, down = np.meshgrid(x - axis, y - axis)
    ray = np.stack([f32(right), f32(down), z - height / FRAME])
    distance = f32(np.sqrt(dot(ray, ray)))
    return f32(ray / distance), distance


def gloss(surface: Surface, normal: Field, lamp: Field, spread: float) -> Field:
    """Anisotropic reflection (Trowbridge-Reitz) about the half vector: narrow along tool marks, wide across them."""
    half = unit(lamp + planes((0, 0, 1)))
    flat = np.stack([*surface.grain, np.zeros_like(surface.height)])
    facing, sideways = dot(half, normal), dot(half, unit(flat - dot(flat, normal) * normal))
    # Of a unit vector in an orthonormal frame, the third component follows from the other two.
    across = np.maximum(1 - facing**2 - sideways**2, 0)
    along_width, across_width = surface.rough**2 + spread**2
    lobe = sideways**2 / along_width + across / across_width + np.maximum(facing, 0.05) ** 2
    return f32(1 / (4 * math.pi * np.sqrt(along_width * across_width) * lobe**2))


def room(normal: Field) -> Field:
    """What a polished facet sees of the room: a bright ceiling, darker walls, a window on the left."""
    up, sideways = 2 * normal[2] ** 2 - 1, 2 * normal[2] * normal[0]
    return f32(0.35 + 0.5 * np.clip(up, 0, 1) ** 2 + 0.6 * np.exp(-((sideways + 0.75) ** 2) / 0.08))


def openness(height: Field, pixel: float) -> Field:
    """Share of the room that a point sees: less at the foot of a wall, little in a bore."""
    shut = np.zeros_like(height)
    for reach in (2.5, 8.0):
        shut += np.maximum(f32(cv2.GaussianBlur(height, (0, 0), reach / pixel)) - height, 0) / reach
    return f32(np.exp(-0.8 * shut))


def shadow(height: Field, pixel: float, light: Light) -> Field:
    """Share of the lamp that a point sees: rays are followed over the relief towards the lamp."""
    x, y, z = light.position
    aside = math.hypot(x, y)
    if aside == 0:
        return np.ones_like(height)  # a lamp straight above casts no shadow that a camera beside it would see
    reach = float(np.ptp(height)) * aside / z  # no ray meets the relief farther away than this
    blocked = np.full_like(height, -np.inf)
    for distance in reach * np.linspace(0, 1, 22)[1:] ** 2:  # steps widen where the shadow is soft anyway
        move = f32([[1, 0, x / aside * distance / pixel], [0, 1, y / aside * distance / pixel]])
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        ahead = cv2.warpAffine(height, move, height.shape[::-1], flags=flags, borderMode=cv2.BORDER_REPLICATE)
        rise = f32(ahead) - height - float(distance * z / aside)
        blocked = np.maximum(blocked, rise / float(0.6 + 2.5 * light.spread * distance))
    return f32(1 - np.clip(blocked, 0, 1))
