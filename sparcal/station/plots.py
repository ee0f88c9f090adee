"""Plots of what a station knows, with matplotlib: a judged image, and how a lot's threshold parts good from planted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparcal.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sparcal.station.judgement import Judgement
    from sparcal.station.lot import Lot

GOOD, PLANTED_COLOUR, LIMIT = "#0072b2", "#d55e00", "#222222"  # told apart by colour-blind eyes too


def plot_judgement(judgement: Judgement, ax: Axes | None = None) -> Axes:
    """The heat map over its photograph, with the verdict above it."""
    axes = _axes(ax)
    picture = judgement.picture()
    if picture is None:
        axes.text(0.5, 0.5, judgement.reason or "not judged", ha="center", va="center", wrap=True)
    else:
        axes.imshow(picture)
    numbers = "" if judgement.score is None else f", {judgement.score:.4g} (threshold {judgement.threshold:.4g})"
    axes.set_title(f"{judgement.path.name}: {judgement.verdict}{numbers}")
    axes.set_axis_off()
    return axes


def plot_lot(lot: Lot, ax: Axes | None = None) -> Axes:
    """Scores of the lot's good parts, each left out, and of the defects planted on them, on both sides of the threshold."""
    axes = _axes(ax)
    tested = lot.record.self_test
    groups = [("good parts", lot.record.image.lot or lot.record.image.own, GOOD)]
    if tested is not None:
        groups.append(("planted defects", tuple(one.score for one in tested.defects if one.plain), PLANTED_COLOUR))
    for height, (name, scores, colour) in enumerate(groups):
        axes.plot(scores, [height] * len(scores), "|", markersize=28, color=colour, label=f"{name} ({len(scores)})")
    axes.axvline(lot.threshold.value, color=LIMIT, linestyle="--", label=f"threshold {lot.threshold.value:.4g}")
    axes.set_yticks(range(len(groups)), [name for name, _, _ in groups])
    axes.set_ylim(-0.6, len(groups) - 0.4)
    axes.set_xlabel("image score")
    axes.set_title(lot.title)
    axes.legend(loc="best", markerscale=0.4)
    return axes


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise MissingExtraError(
            "Plots need matplotlib, which is not installed: run pip install 'sparcal[notebook]'."
        ) from error
    return pyplot.subplots()[1]
