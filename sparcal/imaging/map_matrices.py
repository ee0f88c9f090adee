"""The matrices that take cell scores to pixels, one per axis, in numpy alone: exported models draw maps without torch.

Upsampling, smoothing and the way back to native pixels are all linear and act on rows and columns separately.
So a whole map is `Y @ cells @ X.T`, with one small matrix per axis that is built once in float64: the same numbers
as interpolating and filtering pixel by pixel, and faster by an order of magnitude.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sparcal.errors import DataError, ShapeError
from sparcal.imaging.preprocess import Geometry
from sparcal.settings import finite_number, one_of, whole_number

Upsample = Literal["bilinear", "nearest", "corners"]
Blur = Literal["gaussian", "box3"]
At = Literal["input", "native"]
Matrix = NDArray[np.floating[Any]]
Axis = Matrix  # (pixels, cells); each row holds the weights of one pixel and sums to 1


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
            one_of(getattr(self, name), f"MapRule.{name}", get_args(choices))
        whole_number(self.cell_pixels, "MapRule.cell_pixels", least=1)
        finite_number(self.sigma, "MapRule.sigma", least=0, hint="0 smooths nothing")
        if self.at == "native" and self.upsample != "bilinear":
            raise DataError(
                f"MapRule at='native' stretches bilinearly, got upsample={self.upsample!r}: use at='input'."
            )


def input_axes(h: int, w: int, rule: MapRule) -> tuple[Axis, Axis]:
    """The matrices Y and X of maps at the encoder's input size, from grids of h x w cells."""
    return _smooth_axis(h, h * rule.cell_pixels, rule), _smooth_axis(w, w * rule.cell_pixels, rule)


def draw_native(cell_hw: Matrix, rule: MapRule, geometry: Geometry, *, outside: float) -> NDArray[np.float32]:
    """The map of one image in native pixels, (H, W).

    Args:
        cell_hw: the cell scores of one image, (h, w).
        outside: score of the pixels that the encoder never saw; a value below all others will do, see `value_below`.
    """
    if cell_hw.ndim != 2 or 0 in cell_hw.shape:
        raise ShapeError(f"native_map needs the cell scores of one image (h, w), got {tuple(cell_hw.shape)}.")
    rows, y = _native_axis(cell_hw.shape[0], rule, geometry, axis=0)
    columns, x = _native_axis(cell_hw.shape[1], rule, geometry, axis=1)
    dtype = np.float64 if cell_hw.dtype == np.float64 else np.float32
    canvas = np.full(geometry.native, outside, dtype=np.float32)
    canvas[rows, columns] = y.astype(dtype) @ cell_hw.astype(dtype) @ x.astype(dtype).T
    return canvas


def value_below(cells: Matrix) -> float:
    """A constant strictly below every pixel of the maps of `cells`."""
    if cells.size == 0 or not np.isfinite(cells).all():
        got = "no scores" if cells.size == 0 else "NaN or infinite scores"
        raise DataError(f"outside_value needs finite cell scores of at least one image, got {got}.")
    low, high = float(cells.min()), float(cells.max())
    # Maps are weighted means of cells, so only rounding can take them below `low`.
    return low - 0.01 * (high - low) - 1e-4 * max(abs(low), abs(high)) - 1e-6


def _smooth_axis(cells: int, pixels: int, rule: MapRule) -> Axis:
    """Weights of a smoothed map of `pixels` pixels that spans `cells` cells."""
    position: Matrix
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


def _sample(table: Axis, position: Matrix) -> Axis:
    """Rows of `table` at fractional positions, linearly interpolated, the end rows repeated beyond the ends."""
    position = np.clip(position, 0, len(table) - 1)
    low = np.floor(position).astype(np.intp)
    part = (position - low)[:, None]
    return table[low] * (1 - part) + table[np.minimum(low + 1, len(table) - 1)] * part


def _smooth(table: Axis, rule: MapRule) -> Axis:
    if rule.sigma == 0:
        return table
    radius = 1 if rule.blur == "box3" else int(4.0 * rule.sigma + 0.5)
    taps = np.exp(-0.5 * (np.arange(-radius, radius + 1) / rule.sigma) ** 2)
    # In numpy's words "symmetric" repeats the edge sample and "reflect" does not.
    border: Literal["reflect", "symmetric"] = "reflect" if rule.blur == "box3" else "symmetric"
    padded = np.pad(table, ((radius, radius), (0, 0)), mode=border)
    smoothed = np.zeros_like(table)
    for shift, tap in enumerate(taps / taps.sum()):
        smoothed += tap * padded[shift : shift + len(table)]
    return smoothed
