"""Cell scores to pixel maps, at the input's resolution or in native coordinates, and reductions to image scores.

Upsampling, smoothing and the way back to native pixels are all linear and act on rows and columns separately.
So a whole map is `Y @ cells @ X.T`, with one small matrix per axis that is built once in float64: the same numbers
as interpolating and filtering pixel by pixel, and faster by an order of magnitude.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from scipy.ndimage import correlate1d, gaussian_filter1d
from torch import Tensor

from sparcal.preprocess import Geometry
from sparcal.types import DataError, ShapeError

Upsample = Literal["bilinear", "nearest", "corners"]
Blur = Literal["gaussian", "box3"]
At = Literal["input", "native"]
Floats = NDArray[np.floating[Any]]
Axis = Floats  # (pixels, cells); each row holds the weights of one pixel and sums to 1


@dataclass(frozen=True)
class MapRule:
    """How a detector's authors turn a grid of scores into a map.

    Args:
        cell_pixels: input pixels per cell, 8 for a 28 x 28 grid of a 224 x 224 input.
        sigma: of the smoothing, in pixels; 0 for none.
        upsample: "corners" is bilinear with the outer cell centres on the outer pixels (MuSc).
        blur: "gaussian" has radius 4 sigma and repeats the edge sample (scipy); "box3" is OpenCV's 3 x 3 kernel of
            that sigma with its mirrored border (SubspaceAD).
        at: "input" upsamples and smooths at the encoder's input size, then resizes to native; "native" stretches
            the grid over the native image and smooths there (AnomalyDINO).
    """

    cell_pixels: int
    sigma: float = 4.0
    upsample: Upsample = "bilinear"
    blur: Blur = "gaussian"
    at: At = "input"

    def __post_init__(self) -> None:
        for name, choices in (("upsample", Upsample), ("blur", Blur), ("at", At)):
            if getattr(self, name) not in get_args(choices):
                raise DataError(
                    f"MapRule.{name} must be one of {', '.join(get_args(choices))}, got {getattr(self, name)!r}."
                )
        if not isinstance(self.cell_pixels, int) or self.cell_pixels < 1:
            raise DataError(f"MapRule.cell_pixels must be a positive integer, got {self.cell_pixels!r}.")
        if not (np.isfinite(self.sigma) and self.sigma >= 0):
            raise DataError(f"MapRule.sigma must be 0 or a positive number, got {self.sigma!r}.")
        if self.at == "native" and self.upsample != "bilinear":
            raise DataError(
                f"MapRule at='native' stretches bilinearly, got upsample={self.upsample!r}: use at='input'."
            )


def input_map(cell: Tensor, rule: MapRule) -> Tensor:
    """Maps at the encoder's input size, upsampled and then smoothed: (n, h, w) to (n, H, W).

    float64 stays float64, anything else becomes float32.
    """
    if cell.ndim != 3 or 0 in cell.shape[1:]:
        raise ShapeError(f"input_map needs cell scores (n, h, w), got {tuple(cell.shape)}.")
    h, w = cell.shape[1:]
    return _apply(_smooth_axis(h, h * rule.cell_pixels, rule), cell, _smooth_axis(w, w * rule.cell_pixels, rule))


def native_map(cell_hw: Tensor, rule: MapRule, geometry: Geometry, *, outside: float) -> NDArray[np.float32]:
    """The map of one image in native pixels, (H, W).

    Args:
        outside: score of the pixels that the encoder never saw; see `outside_value`.
    """
    if cell_hw.ndim != 2 or 0 in cell_hw.shape:
        raise ShapeError(f"native_map needs the cell scores of one image (h, w), got {tuple(cell_hw.shape)}.")
    rows, y = _native_axis(cell_hw.shape[0], rule, geometry, axis=0)
    columns, x = _native_axis(cell_hw.shape[1], rule, geometry, axis=1)
    canvas = np.full(geometry.native, outside, dtype=np.float32)
    canvas[rows, columns] = _apply(y, cell_hw, x).cpu().numpy()
    return canvas


def outside_value(cells: Tensor) -> float:
    """One constant strictly below every pixel of the maps of all `cells`.

    Use one value for all images that are ranked together: a value per image would mix unseen pixels of one image
    with seen pixels of another.
    """
    if cells.numel() == 0 or not bool(torch.isfinite(cells).all()):
        got = "no scores" if cells.numel() == 0 else "NaN or infinite scores"
        raise DataError(f"outside_value needs finite cell scores of at least one image, got {got}.")
    low, high = float(cells.min()), float(cells.max())
    # Maps are weighted means of cells, so only rounding can take them below `low`.
    return low - 0.01 * (high - low) - 1e-4 * max(abs(low), abs(high)) - 1e-6


def top_mean(values: Tensor, fraction: float) -> Tensor:
    """Mean of the largest int(fraction * p) of each row of (n, p), or its maximum where that count is 0."""
    if values.ndim != 2 or values.shape[1] == 0:
        raise ShapeError(f"top_mean needs values (n, p) with p of at least 1, got {tuple(values.shape)}.")
    if not 0 <= fraction <= 1:
        raise DataError(f"top_mean needs a fraction between 0 and 1, got {fraction}.")
    count = max(int(fraction * values.shape[1]), 1)
    return values.topk(count, dim=1, sorted=False).values.mean(dim=1)


def overlay(
    image: NDArray[np.uint8], heat: NDArray[Any], *, low: float, high: float, opacity: float = 0.5
) -> NDArray[np.uint8]:
    """A map in turbo colours over its image, RGB.

    Args:
        image: (H, W, 3) RGB.
        heat: (H, W).
        low: score of the coldest colour; give all images of a page the same `low` and `high`.
        high: score of the hottest colour.
        opacity: 0 shows the image alone, 1 the map alone.
    """
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8 or heat.shape != image.shape[:2]:
        raise ShapeError(
            f"overlay needs a uint8 image (H, W, 3) and a map (H, W), got {image.dtype} {image.shape} and {heat.shape}."
        )
    if not (np.isfinite([low, high]).all() and high > low):
        raise DataError(f"overlay needs finite low < high, got {low} and {high}: widen the colour scale.")
    if not 0 <= opacity <= 1:
        raise DataError(f"overlay needs an opacity between 0 and 1, got {opacity}.")
    level = np.clip((np.asarray(heat, dtype=np.float32) - low) * (255.0 / (high - low)), 0, 255)
    colours = cv2.cvtColor(cv2.applyColorMap(np.rint(level).astype(np.uint8), cv2.COLORMAP_TURBO), cv2.COLOR_BGR2RGB)
    blended: NDArray[np.uint8] = cv2.addWeighted(image, 1.0 - opacity, colours, opacity, 0.0).astype(np.uint8)
    return blended


def _apply(y: Axis, cell: Tensor, x: Axis) -> Tensor:
    dtype = torch.float64 if cell.dtype == torch.float64 else torch.float32
    rows = torch.as_tensor(y, dtype=dtype, device=cell.device)
    columns = torch.as_tensor(x, dtype=dtype, device=cell.device)
    return rows @ cell.to(dtype) @ columns.T


def _smooth_axis(cells: int, pixels: int, rule: MapRule) -> Axis:
    """Weights of a smoothed map of `pixels` pixels that spans `cells` cells."""
    position: Floats
    if rule.upsample == "corners":
        position = np.linspace(0, cells - 1, pixels) if pixels > 1 else np.zeros(1)
    else:
        position = (np.arange(pixels) + 0.5) * (cells / pixels) - 0.5
    if rule.upsample == "nearest":
        position = np.rint(position)
    return _smooth(_sample(np.eye(cells), position), rule)


def _native_axis(cells: int, rule: MapRule, geometry: Geometry, *, axis: int) -> tuple[slice, Axis]:
    """Which native pixels of an axis are covered, and their weights."""
    native, size, pixels = geometry.native[axis], geometry.input[axis], cells * rule.cell_pixels
    # Encoders round an input that is no multiple of their cells up or down; the first cell stays at the first pixel.
    if abs(pixels - size) >= max(rule.cell_pixels, size / 8):
        raise ShapeError(
            f"A map of {cells} cells of {rule.cell_pixels} pixels must span the input's {size} pixels, got {pixels}: "
            "give MapRule the encoder's cell_pixels."
        )
    start, stop = geometry.covered[axis], geometry.covered[axis + 2]
    valid_start, valid_stop = geometry.valid[axis], geometry.valid[axis + 2]
    if rule.at == "native" and start == 0:
        stop = native  # AnomalyDINO's authors stretch the grid over the stripe that was cut to a multiple
    # A pixel is covered when its centre is; an input never covers less than one native pixel.
    first = min(int(np.ceil(start - 0.5)), native - 1)
    last = max(int(np.ceil(stop - 0.5)), first + 1)
    share = (np.arange(first, last) + 0.5 - start) / (stop - start)
    in_input = valid_start + share * (valid_stop - valid_start)
    if rule.at == "native":
        return slice(first, last), _smooth(_sample(np.eye(cells), in_input / rule.cell_pixels - 0.5), rule)
    position = np.clip(in_input - 0.5, valid_start, valid_stop - 1)
    return slice(first, last), _sample(_smooth_axis(cells, pixels, rule), position)


def _sample(table: Axis, position: Floats) -> Axis:
    """Rows of `table` at fractional positions, linearly interpolated, the end rows repeated beyond the ends."""
    position = np.clip(position, 0, len(table) - 1)
    low = np.floor(position).astype(np.intp)
    part = (position - low)[:, None]
    return table[low] * (1 - part) + table[np.minimum(low + 1, len(table) - 1)] * part


def _smooth(table: Axis, rule: MapRule) -> Axis:
    if rule.sigma == 0:
        return table
    if rule.blur == "box3":
        side = np.exp(-0.5 / rule.sigma**2)
        taps = np.array([side, 1.0, side]) / (1 + 2 * side)
        smoothed: Axis = correlate1d(table, taps, axis=0, mode="mirror")
        return smoothed
    return gaussian_filter1d(table, rule.sigma, axis=0, mode="reflect", truncate=4.0)
