"""From a surface and a lamp to a photograph: point light, tool-mark reflections, shadows, lens and sensor."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from sparcal.workpiece import FRAME, Array, Surface, View


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


def photograph(surface: Surface, view: View, light: Light, *, seed: int) -> NDArray[np.uint8]:
    """The image `(H, W, 3)` that a camera straight above takes; `seed` decides the sensor noise."""
    rng = np.random.default_rng([seed, 4])
    radiance = shade(surface, view, light) * np.float32(light.exposure)
    radiance = cv2.GaussianBlur(radiance, (0, 0), 0.55)
    size = radiance.shape[0]
    axis = np.linspace(-1, 1, size, dtype=np.float32)
    radiance *= (1 - 0.16 * (axis[:, None] ** 2 + axis**2))[..., None]  # the lens darkens towards the corners
    # Photon noise grows with the root of the signal; the constant is read-out noise.
    grain = rng.standard_normal(radiance.shape, dtype=np.float32)
    grain = cv2.GaussianBlur(grain, (0, 0), 0.5) * np.float32(1.6)
    radiance += np.sqrt(0.00022 * np.maximum(radiance, 0) + 0.000004) * grain
    return develop(radiance)


def develop(radiance: Array) -> NDArray[np.uint8]:
    """Linear light to display values: highlights roll off above 0.7 instead of clipping hard."""
    knee = np.float32(0.6)
    over = np.maximum(radiance - knee, 0)
    soft = np.minimum(radiance, knee) + (1 - knee) * (1 - np.exp(-over / (1 - knee)))
    return np.round(255 * np.clip(soft, 0, 1) ** np.float32(1 / 2.2)).astype(np.uint8)


def shade(surface: Surface, view: View, light: Light) -> Array:
    """Linear radiance `(H, W, 3)` towards the camera."""
    normal = normals(surface.height, view.pixel)
    lamp, distance = towards_lamp(surface, light)
    lit = shadow(surface.height, view.pixel, light) * np.maximum(dot(normal, lamp), 0)
    strength = (light.intensity * 2.6 * (1.5 / distance) ** 2 * lit)[..., None] * np.float32(light.colour)
    open_sky = openness(surface.height, view.pixel)[..., None] * np.float32(light.ambient)
    direct = surface.diffuse / np.float32(np.pi) + surface.mirror * gloss(surface, normal, lamp, light.spread)[..., None]
    return direct * strength + open_sky * (surface.diffuse + surface.mirror * room(normal)[..., None])


def dot(a: Array, b: Array) -> Array:
    """Scalar products of two fields of vectors."""
    return np.einsum("hwc,hwc->hw", a, b)


def unit(vectors: Array) -> Array:
    """`vectors` scaled to length 1."""
    return vectors / np.sqrt(dot(vectors, vectors))[..., None]


def normals(height: Array, pixel: float) -> Array:
    """Unit normals `(H, W, 3)` of a height map."""
    down, right = np.gradient(height, pixel)
    return unit(np.stack([-right, -down, np.ones_like(height)], axis=-1).astype(np.float32))


def towards_lamp(surface: Surface, light: Light) -> tuple[Array, Array]:
    """Unit vectors from each point to the lamp, and its distance in image widths."""
    size = surface.height.shape[0]
    axis = (np.arange(size, dtype=np.float32) + 0.5) / size - 0.5
    x, y, z = (np.float32(v) for v in light.position)
    right, down = np.broadcast_to(x - axis, (size, size)), np.broadcast_to((y - axis)[:, None], (size, size))
    ray = np.stack([right, down, z - surface.height / np.float32(FRAME)], axis=-1)
    distance = np.sqrt(dot(ray, ray))
    return ray / distance[..., None], distance


def gloss(surface: Surface, normal: Array, lamp: Array, spread: float) -> Array:
    """Anisotropic reflection about the half vector: narrow along the tool marks, wide across them."""
    half = unit(lamp + np.float32((0, 0, 1)))
    along = np.concatenate([surface.grain, np.zeros_like(surface.grain[..., :1])], axis=-1)
    along = unit(along - dot(along, normal)[..., None] * normal)
    across = np.cross(normal, along)
    widths = np.hypot(surface.rough, np.float32(spread))
    lobe = (dot(half, along) / widths[..., 0]) ** 2 + (dot(half, across) / widths[..., 1]) ** 2
    lobe += np.maximum(dot(half, normal), 0.05) ** 2
    return 1 / (4 * np.float32(np.pi) * widths[..., 0] * widths[..., 1] * lobe**2)


def room(normal: Array) -> Array:
    """What a polished facet sees of the room: a bright ceiling, darker walls, a window on the left."""
    up = 2 * normal[..., 2] ** 2 - 1
    sideways = 2 * normal[..., 2] * normal[..., 0]
    return np.float32(0.35) + 0.5 * np.clip(up, 0, 1) ** 2 + 0.6 * np.exp(-((sideways + 0.75) ** 2) / 0.08)


def openness(height: Array, pixel: float) -> Array:
    """Share of the room that a point sees: less at the foot of a wall, little in a bore."""
    shut = np.zeros_like(height)
    for reach in (2.5, 8.0):
        shut += np.maximum(cv2.GaussianBlur(height, (0, 0), reach / pixel) - height, 0) / np.float32(reach)
    return np.exp(-0.8 * shut)


def shadow(height: Array, pixel: float, light: Light) -> Array:
    """Share of the lamp that a point sees: rays are followed over the relief towards the lamp."""
    x, y, z = light.position
    across = max(float(np.hypot(x, y)), 1e-6)
    climb = np.float32(z / across)
    reach = float(np.ptp(height)) / float(climb)
    blocked = np.full_like(height, -np.inf)
    for distance in np.linspace(0, reach, 22)[1:]:
        offset = distance / pixel / across
        move = np.float32([[1, 0, x * offset], [0, 1, y * offset]])
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        ahead = cv2.warpAffine(height, move, height.shape[::-1], flags=flags, borderMode=cv2.BORDER_REPLICATE)
        softness = np.float32(0.6 + 2.5 * light.spread * distance)
        blocked = np.maximum(blocked, (ahead - height - np.float32(distance) * climb) / softness)
    return 1 - np.clip(blocked + 0.5, 0, 1)
