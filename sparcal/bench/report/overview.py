"""The paper's first figure: (a) where SPARC stands, with the real maps of one image; (b) what it removes at a cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sparcal.bench.report.drawing import Figure, coloured, pyplot, save_figure
from sparcal.bench.run.pictures import ExamplePicture

# Panel (b) is a drawing, not a measurement: normals that disagree along one line, and a defect that leaves it.
_NORMALS = np.array([[-1.4, -0.62], [-0.6, -0.3], [0.1, 0.02], [0.8, 0.4], [1.1, 0.5]])
_DEFECT = np.array([0.75, 1.25])


def draw_overview(picture: ExamplePicture | None, detector: str, name: str, caption: str, folder: Path) -> Figure:
    """Draw the figure; without a picture its places say that it is missing."""
    plt = pyplot()
    figure = plt.figure(figsize=(11, 3.4), layout="constrained")
    pipeline, cell = figure.subfigures(1, 2, width_ratios=[2.6, 1])
    _draw_pipeline(pipeline, picture, detector)
    _draw_cell(cell.subplots())
    return save_figure(plt, figure, name, caption, folder)


def _draw_pipeline(figure: Any, picture: ExamplePicture | None, detector: str) -> None:
    figure.suptitle("(a) A frozen encoder, SPARC, a frozen detector", fontsize=9)
    axes = figure.subplots(2, 5, width_ratios=[1, 0.8, 0.8, 0.8, 1])
    for axis in axes.flat:
        axis.axis("off")
    pixels: list[Any] = [None, None, None]
    if picture is not None:
        both = np.stack([picture.base, picture.corrected])
        pixels = [picture.image, *(coloured(picture.image, heat, both) for heat in both)]
    for axis, title, shown in (
        (axes[0, 0], "image of the lot", pixels[0]),
        (axes[0, 4], "base", pixels[1]),
        (axes[1, 4], "with SPARC", pixels[2]),
    ):
        axis.set_title(title, fontsize=8)
        if shown is None:
            axis.text(0.5, 0.5, "missing", ha="center", va="center", fontsize=7, transform=axis.transAxes)
        else:
            axis.imshow(shown)
    box = {"boxstyle": "round,pad=0.5", "facecolor": "0.92", "edgecolor": "0.6"}
    words = (
        (0, 1, "encoder\n(frozen)"),
        (0, 3, f"{detector}\n(frozen)"),
        (1, 2, "SPARC"),
        (1, 3, f"{detector}\n(frozen)"),
    )
    for row, column, text in words:
        axes[row, column].text(0.5, 0.5, text, ha="center", va="center", fontsize=8, bbox=box)
    for row, column in ((0, 2), (1, 0), (1, 1)):
        arrow = "→" if row == 0 else ("k normals of\nthe lot" if column == 0 else "→")
        axes[row, column].text(0.5, 0.5, arrow, ha="center", va="center", fontsize=8 if column == 0 else 14)


def _draw_cell(axis: Any) -> None:
    axis.set_title("(b) One cell (drawing)", fontsize=9)
    mean = _NORMALS.mean(axis=0)
    direction = np.linalg.svd(_NORMALS - mean)[2][0]
    line = mean + np.outer([-2.2, 2.2], direction)
    corrected = _DEFECT - direction * (direction @ (_DEFECT - mean))
    axis.plot(*line.T, color="0.7", linewidth=1, label="removed subspace")
    axis.scatter(*_NORMALS.T, color="C0", s=18, label="normals of the lot")
    axis.scatter(*mean, color="k", marker="+", s=60, label="their mean")
    axis.scatter(*_DEFECT, color="C3", s=22, label="defect")
    axis.scatter(*corrected, facecolors="none", edgecolors="C3", s=28, label="defect, corrected")
    axis.annotate("", corrected, _DEFECT, arrowprops={"arrowstyle": "->", "color": "C3"})
    axis.set_aspect("equal")
    axis.set_xticks([])
    axis.set_yticks([])
    axis.legend(fontsize=6, frameon=False, loc="lower right")
