"""Figures of a run as PNG and PDF: curves over a variant, and grids of anomaly maps.

In an experiment file:

    [[figures]]
    name = "rank"
    kind = "curves"
    caption = "..."
    variants = ["rank=1", "rank=2"]             # along x, labelled by what follows the equals sign
    x = "rank r"
    paper = "rank-sensitivity"                  # the paper's curve, dotted, where it prints the numbers
    panels = [{ label = "(a) MVTec AD 2", dataset = "mvtec-ad-2", metric = "image_auroc", hosts = ["patchcore"] }]

    [[figures]]
    name = "mvtec-ad-2"
    kind = "hosts"                              # a row per category: image, truth, then the map of each host
    # kind = "sides"                            # a column per category: image, truth, base, corrected of one host
    caption = "..."
    dataset = "mvtec-ad-2"
    page = 6                                    # categories per page; by default all

    [[figures]]
    name = "overview"
    kind = "overview"                           # the paper's first figure, with the maps of one category's example
    host = "patchcore"
    category = "lights"
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparcal.bench.plan.contenders import title_of
from sparcal.bench.plan.unit import Unit
from sparcal.bench.report.drawing import Figure, coloured, pyplot, save_figure
from sparcal.bench.report.labels import fill_words
from sparcal.bench.report.measured import Measured
from sparcal.bench.report.overview import draw_overview
from sparcal.bench.report.paper import PAPER_TABLES, TablePlace, paper_value
from sparcal.bench.run.folder import RunFolder
from sparcal.bench.run.pictures import ExamplePicture, read_picture
from sparcal.errors import DataError

FIGURE_KINDS = ("curves", "hosts", "sides", "overview")
SELECTION = (
    "The image of a category is the one with the lower median of the ground-truth areas, ties by ascending file name; "
    "k = {k}, seed {seed}."
)
_KEYS = {
    "curves": ("name", "kind", "caption", "variants", "x", "paper", "panels"),
    "hosts": ("name", "kind", "caption", "dataset", "page"),
    "sides": ("name", "kind", "caption", "host"),
    "overview": ("name", "kind", "caption", "host", "category"),
}
_NEEDED = {
    "curves": ("name", "variants", "panels"),
    "hosts": ("name", "dataset"),
    "sides": ("name", "host"),
    "overview": ("name", "host", "category"),
}


def draw_figure(data: Mapping[str, Any], measured: Measured, results: RunFolder, folder: Path) -> list[Figure]:
    """Draw one figure of an experiment file; a figure of several pages gives several."""
    kind, name = data.get("kind"), data.get("name", "?")
    if kind not in FIGURE_KINDS:
        raise DataError(f"The figure {name!r} must be one of {', '.join(FIGURE_KINDS)}, got {kind!r}.")
    for key in data:
        if key not in _KEYS[kind]:
            raise DataError(f"The figure {name!r} has no key {key!r}; choose from {', '.join(_KEYS[kind])}.")
    missing = [key for key in _NEEDED[kind] if key not in data]
    if missing:
        raise DataError(f"The figure {name!r} of kind {kind} must give {missing[0]}, got {', '.join(data)}.")
    if kind == "curves":
        return [_curves(data, measured, folder)]
    if kind == "hosts":
        return _by_host(data, measured, results, folder)
    if kind == "overview":
        return [_overview(data, measured, results, folder)]
    return [_by_side(data, measured, results, folder)]


def _curves(data: Mapping[str, Any], measured: Measured, folder: Path) -> Figure:
    plt = pyplot()
    panels, variants, paper = data["panels"], data["variants"], data.get("paper", "")
    if paper and paper not in PAPER_TABLES:
        raise DataError(f"The figure {data['name']!r} names no table of the paper, got {paper!r}.")
    figure, axes = plt.subplots(1, len(panels), figsize=(3.6 * len(panels), 3.2), squeeze=False, layout="constrained")
    labels = [variant.partition("=")[2] or variant for variant in variants]
    order = measured.experiment.hosts
    for axis, panel in zip(axes[0], panels, strict=True):
        for host in panel.get("hosts", order):
            places = [
                TablePlace(panel["dataset"], panel["metric"], "delta", host, variant=variant) for variant in variants
            ]
            colour = f"C{order.index(host)}" if host in order else "0.5"
            ours = [measured.number(place).value for place in places]
            axis.plot(labels, ours, marker="o", markersize=3, color=colour, label=title_of(host))
            theirs = [paper_value(paper, place) if paper else None for place in places]
            if any(value is not None for value in theirs):
                printed = [np.nan if value is None else value for value in theirs]
                axis.plot(labels, printed, linestyle=":", linewidth=1, color=colour)
        axis.axhline(0, color="0.8", linewidth=0.8, zorder=0)
        axis.set_title(panel["label"], fontsize=9)
        axis.set_xlabel(data.get("x", ""))
        axis.set_ylabel("change in percentage points")
    handles, names = axes[0][-1].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=5, fontsize=8, frameon=False)
    caption = fill_words(data.get("caption", ""), measured.run_units) + (
        " Dotted: the paper's numbers." if paper else ""
    )
    return save_figure(plt, figure, data["name"], caption, folder)


def _by_host(data: Mapping[str, Any], measured: Measured, results: RunFolder, folder: Path) -> list[Figure]:
    """Rows are categories, columns image, ground truth and the corrected map of each host."""
    dataset = data["dataset"]
    units = [unit for unit in measured.units if unit.picture and unit.dataset == dataset and unit.seed == 0]
    hosts = [host for host in measured.experiment.hosts if any(unit.host == host for unit in units)]
    categories = [name for name in measured.categories(dataset) if any(unit.category == name for unit in units)]
    size = int(data.get("page", len(categories) or 1))
    pages = [categories[first : first + size] for first in range(0, len(categories), size)] or [[]]
    figures = []
    for number, page in enumerate(pages, start=1):
        rows = []
        for category in page:
            taken = [_taken(units, results, category, host) for host in hosts]
            first = next((picture for picture in taken if picture is not None), None)
            rows.append([*_source(first), *(_alone(picture) for picture in taken)])
        heads = ["image", "ground truth", *(title_of(host) for host in hosts)]
        of = f" (page {number} of {len(pages)})" if len(pages) > 1 else ""
        name = data["name"] + (f"-{number}" if len(pages) > 1 else "")
        caption = f"{data.get('caption', '')} Each map is scaled to its own minimum and maximum, turbo colours. {SELECTION}{of}"
        caption = fill_words(caption, units)
        figures.append(_grid(rows, heads, [x.replace("_", " ") for x in page], name, caption, folder))
    return figures


def _by_side(data: Mapping[str, Any], measured: Measured, results: RunFolder, folder: Path) -> Figure:
    """Columns are categories; base and corrected share the colours of their column."""
    host = data["host"]
    units = [unit for unit in measured.units if unit.picture and unit.host == host and unit.seed == 0]
    planned = {(unit.dataset, unit.category) for unit in units}
    names = [
        (dataset, category)
        for block in measured.experiment.units
        for dataset in block.datasets
        for category in block.categories or measured.categories(dataset)
        if block.pictures and (dataset, category) in planned
    ]
    columns = []
    for dataset, category in names:
        picture = _taken([unit for unit in units if unit.dataset == dataset], results, category, host)
        columns.append([*_source(picture), *_shared(picture)])
    rows = [list(row) for row in zip(*columns, strict=True)] if columns else []
    heads = [category.replace("_", " ") for _, category in names]
    caption = f"{data.get('caption', '')} Base and SPARC share the colours of their column, turbo. {SELECTION}"
    caption = fill_words(caption, units)
    return _grid(rows, heads, ["image", "ground truth", "base", "+ SPARC"], data["name"], caption, folder)


def _overview(data: Mapping[str, Any], measured: Measured, results: RunFolder, folder: Path) -> Figure:
    """The paper's first figure: the way of one image, with its maps."""
    host, category = data["host"], data["category"]
    units = [unit for unit in measured.units if unit.picture and (unit.host, unit.category) == (host, category)]
    caption = fill_words(f"{data.get('caption', '')} Real maps of one image, k = {{k}}, on {{encoder}}.", units)
    return draw_overview(_taken(units, results, category, host), title_of(host), data["name"], caption, folder)


_Pixels = NDArray[np.uint8] | None


def _taken(units: Sequence[Unit], results: RunFolder, category: str, host: str) -> ExamplePicture | None:
    for unit in units:
        if (unit.category, unit.host) == (category, host) and results.is_finished(unit):
            return read_picture(results.picture(unit))
    return None


def _source(picture: ExamplePicture | None) -> list[_Pixels]:
    if picture is None:
        return [None, None]
    truth = np.repeat((picture.mask * 255).astype(np.uint8)[..., None], 3, axis=2)
    return [picture.image, truth]


def _alone(picture: ExamplePicture | None) -> _Pixels:
    return None if picture is None else coloured(picture.image, picture.corrected, picture.corrected)


def _shared(picture: ExamplePicture | None) -> list[_Pixels]:
    if picture is None:
        return [None, None]
    both = np.stack([picture.base, picture.corrected])
    return [coloured(picture.image, heat, both) for heat in both]


def _grid(
    rows: Sequence[Sequence[_Pixels]], heads: Sequence[str], names: Sequence[str], name: str, caption: str, folder: Path
) -> Figure:
    plt = pyplot()
    n, m = max(1, len(rows)), max(1, len(heads))
    figure, axes = plt.subplots(n, m, figsize=(1.3 * m, 1.3 * n), squeeze=False, layout="constrained")
    for axis in axes.flat:
        axis.set_xticks([])
        axis.set_yticks([])
    for row, line in zip(axes, rows, strict=False):
        for axis, pixels in zip(row, line, strict=False):
            if pixels is None:
                axis.text(0.5, 0.5, "missing", ha="center", va="center", fontsize=6, transform=axis.transAxes)
            else:
                axis.imshow(pixels)
    for axis, text in zip(axes[0], heads, strict=False):
        axis.set_title(text, fontsize=7)
    for axis, text in zip(axes[:, 0], names, strict=False):
        axis.set_ylabel(text, fontsize=7)
    return save_figure(plt, figure, name, caption, folder)
