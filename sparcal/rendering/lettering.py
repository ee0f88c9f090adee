"""A single-stroke font, as engravers and pad printers use it."""

from __future__ import annotations

import numpy as np

from sparcal.rendering.surface import FRAME, Field, View, polyline_distance

# Each glyph is a list of polylines on a 4 x 6 grid, y down.
GLYPHS: dict[str, tuple[tuple[tuple[float, float], ...], ...]] = {
    "S": (((4, 1), (3, 0), (1, 0), (0, 1), (0, 2), (1, 3), (3, 3), (4, 4), (4, 5), (3, 6), (1, 6), (0, 5)),),
    "P": (((0, 6), (0, 0), (3, 0), (4, 1), (4, 2), (3, 3), (0, 3)),),
    "-": (((0.8, 3), (3.2, 3)),),
    "2": (((0, 1), (1, 0), (3, 0), (4, 1), (4, 2), (0, 6), (4, 6)),),
    "D": (((0, 0), (0, 6), (2.5, 6), (4, 4.5), (4, 1.5), (2.5, 0), (0, 0)),),
    "N": (((0, 6), (0, 0), (4, 6), (4, 0)),),
    "0": (((1, 0), (3, 0), (4, 1), (4, 5), (3, 6), (1, 6), (0, 5), (0, 1), (1, 0)),),
    "4": (((3, 6), (3, 0), (0, 4), (4, 4)),),
    "8": (
        ((1, 3), (0, 2), (0, 1), (1, 0), (3, 0), (4, 1), (4, 2), (3, 3), (1, 3)),
        ((1, 3), (0, 4), (0, 5), (1, 6), (3, 6), (4, 5), (4, 4), (3, 3)),
    ),
}


def text_distance(view: View, text: str, *, centre: tuple[float, float], height: float) -> Field:
    """Distance to the strokes of `text`, laid out so that a blank leaves the other letters where they are."""
    unit = height / 6
    left = centre[0] - (len(text) * 5.6 - 1.6) / 2 * unit
    top = centre[1] - height / 2
    distance = np.full(view.x.shape, np.float32(FRAME))
    # Strokes are thin: measuring only the band of rows around the line of text saves nine tenths of the work.
    rows = np.flatnonzero(np.abs(view.y - centre[1]).min(axis=1) < height)
    if not len(rows):
        return distance
    band = slice(rows[0], rows[-1] + 1)
    for position, letter in enumerate(text):
        near = left + (position * 5.6 + 2) * unit
        columns = np.flatnonzero(np.abs(view.x[band] - near).min(axis=0) < 4 * unit)
        if letter == " " or not len(columns):
            continue
        window = (band, slice(columns[0], columns[-1] + 1))
        part = View(view.x[window], view.y[window], view.pixel)
        for stroke in GLYPHS[letter]:
            points = np.array(stroke) * unit + (left + position * 5.6 * unit, top)
            distance[window] = np.minimum(distance[window], polyline_distance(part, points)[0])
    return distance
