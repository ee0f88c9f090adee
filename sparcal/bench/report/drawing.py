"""What every figure needs: matplotlib, colours over an image, and files with the same bytes for the same run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparcal.errors import MissingExtraError
from sparcal.files.atomic import atomic_path
from sparcal.imaging.overlay import overlay

_DPI = 150


@dataclass(frozen=True)
class Figure:
    """The files of one page of a figure, and its caption."""

    name: str
    caption: str
    png: Path
    pdf: Path


def coloured(image: NDArray[np.uint8], heat: NDArray[np.float32], scale: NDArray[np.float32]) -> NDArray[np.uint8]:
    """A map over its image, its colours spanning the values of `scale`."""
    low, high = float(scale.min()), float(scale.max())
    return overlay(image, heat, low=low, high=high if high > low else low + 1.0, opacity=0.7)


def save_figure(plt: Any, figure: Any, name: str, caption: str, folder: Path) -> Figure:
    """Write a figure as PNG and PDF, and close it."""
    made = Figure(name, caption.strip(), folder / f"{name}.png", folder / f"{name}.pdf")
    with atomic_path(made.png) as temporary:
        figure.savefig(temporary, format="png", dpi=_DPI)
    with atomic_path(made.pdf) as temporary:
        figure.savefig(temporary, format="pdf", metadata={"CreationDate": None})  # the same run, the same bytes
    plt.close(figure)
    return made


def pyplot() -> Any:
    """matplotlib's pyplot, drawing to files."""
    try:
        import matplotlib
    except ImportError as error:
        raise MissingExtraError(
            "Figures need the package matplotlib, which is not installed: run pip install 'sparcal[bench]'."
        ) from error
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt
