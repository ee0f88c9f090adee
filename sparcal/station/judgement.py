"""What a lot says about images: one judgement, and the list of them that scoring gives."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sparcal.errors import DataError, MissingExtraError
from sparcal.imaging.decode import open_image
from sparcal.imaging.preprocess import Geometry

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

    from sparcal.calibration.sight import Sight
    from sparcal.imaging.map_matrices import MapRule

SHOWN_IN_NOTEBOOK = 12  # judgements of a list; its table has all
NOTEBOOK_SIDE = 224
GREY = 128  # behind a map whose photograph is not at hand


@dataclass(frozen=True, eq=False)
class Judgement:
    """What a lot says about one image.

    Args:
        verdict: "error" where the image could not be scored; `reason` says why.
        cell: (h, w), None where it could not be scored.
        sight: what a monitor looks at: the part as a whole.
    """

    path: Path
    sha256: str | None
    score: float | None
    threshold: float
    verdict: Literal["pass", "fail", "error"]
    pixel_threshold: float
    reason: str | None = None
    cell: NDArray[Any] | None = field(default=None, repr=False)
    geometry: Geometry | None = field(default=None, repr=False)
    rule: MapRule | None = field(default=None, repr=False)
    outside: float = 0.0
    sight: Sight | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        what = self.reason if self.score is None else f"score {self.score:.4g}, threshold {self.threshold:.4g}"
        return f"<Judgement {self.verdict}: {self.path.name}, {what}>"

    def heat(self) -> NDArray[np.float32] | None:
        """The score of every native pixel, (H, W); None where the image could not be scored."""
        from sparcal.imaging.map_matrices import draw_native

        if self.cell is None or self.geometry is None or self.rule is None:
            return None
        return draw_native(self.cell, self.rule, self.geometry, outside=self.outside)

    def row(self) -> dict[str, Any]:
        """One line of a result table."""
        return {
            "path": str(self.path),
            "score": self.score,
            "threshold": self.threshold,
            "verdict": self.verdict,
            "sha256": self.sha256,
            "reason": self.reason,
        }

    def picture(self) -> NDArray[np.uint8] | None:
        """The heat map over its photograph, (H, W, 3), outlined where it exceeds the pixel threshold.

        None where the image could not be scored.
        """
        from sparcal.station.judged_folder import outlined

        heat = self.heat()
        if heat is None:
            return None
        return outlined(self.photograph(heat.shape), heat, self.pixel_threshold)

    def photograph(self, size: tuple[int, ...]) -> NDArray[np.uint8]:
        """The image as it lies at its path, (H, W, 3); grey where it came from memory, or has gone or changed since.

        Args:
            size: H and W of the image that was judged.
        """
        grey = np.full((*size, 3), GREY, np.uint8)
        if not self.path.is_file():
            return grey
        try:
            found = np.asarray(open_image(self.path))
        except DataError:  # replaced by something that is no image
            return grey
        return found if found.shape == grey.shape else grey

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw `picture` with its verdict, on `ax` or on a new figure; needs matplotlib."""
        from sparcal.station.plots import plot_judgement

        return plot_judgement(self, ax)

    def _repr_html_(self) -> str:
        """The verdict with its heat map, for notebooks."""
        from sparcal.station.inline_page import in_html, jpeg_uri

        picture = self.picture()
        words = f"<p><b>{self.verdict}</b> {in_html(self.path.name)}<br>{in_html(_numbers(self))}</p>"
        if picture is None:
            return words
        image = Image.fromarray(picture)
        image.thumbnail((NOTEBOOK_SIDE, NOTEBOOK_SIDE))
        name = in_html(self.path.name)
        return f"<figure style='margin:0'><img alt='heat map of {name}' src='{jpeg_uri(image)}'>{words}</figure>"


class Judgements(list[Judgement]):
    """Judgements in the order of their images: a list that shows itself and becomes a table.

    >>> judged = Judgements([Judgement(Path("a.png"), None, 3.0, 2.0, "fail", 2.5)])
    >>> judged
    <Judgements of 1 image: 1 fail>
    >>> list(judged.to_pandas().columns)
    ['path', 'score', 'threshold', 'verdict', 'sha256', 'reason']
    """

    def to_pandas(self) -> DataFrame:
        """One row per image; needs pandas."""
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtraError(
                "A table of judgements needs pandas, which is not installed: run pip install 'sparcal[notebook]'."
            ) from error
        empty = Judgement(Path(), None, None, 0.0, "error", 0.0)
        return pd.DataFrame([one.row() for one in self], columns=list(empty.row()))

    def worst_first(self) -> Judgements:
        """The same judgements, those that could not be made first, then by how far the score exceeds the threshold."""
        return Judgements(sorted(self, key=lambda one: (one.score is not None, one.threshold - (one.score or 0.0))))

    def __repr__(self) -> str:
        counts = Counter(one.verdict for one in self)
        words = ", ".join(f"{counts[name]} {name}" for name in ("fail", "pass", "error") if counts[name])
        return f"<Judgements of {len(self)} image{'' if len(self) == 1 else 's'}{': ' if words else ''}{words}>"

    def _repr_html_(self) -> str:
        """The worst with their heat maps, for notebooks."""
        from sparcal.station.inline_page import in_html

        shown = self.worst_first()[:SHOWN_IN_NOTEBOOK]
        more = f"; the {len(shown)} worst are shown" if len(shown) < len(self) else ""
        cards = "".join(one._repr_html_() for one in shown)
        return (
            f"<p>{in_html(repr(self)[1:-1])}{more}</p><div style='display:flex;flex-wrap:wrap;gap:1rem'>{cards}</div>"
        )


def _numbers(one: Judgement) -> str:
    if one.score is None:
        return one.reason or ""
    return f"score {one.score:.4g}, threshold {one.threshold:.4g}"
