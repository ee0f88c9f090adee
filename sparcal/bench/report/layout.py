"""The shape of a table as data: sections, rows and columns, each giving a part of the place of its cells.

In an experiment file:

    [[tables]]
    name = "main"                          # its files
    paper = "main"                         # the paper's table whose numbers stand beside; see sparcal.bench.report.paper
    caption = "..."                        # words in braces are filled in: see sparcal.bench.report.labels
    stub = ["Method"]                      # headings of the row labels
    place = { k = 8 }                      # what all cells share
    bold = "pair"                          # larger of base and corrected; "column" or "row": the best of each
    sd = false                             # whether numbers carry their spread over seeds
    sections = [{ label = "Image AUROC", metric = "image_auroc" }]
    rows = [{ over = "host" }]
    columns = [{ over = "dataset", each = [{ label = "base", statistic = "base" }] }]

Rows and columns are blocks: every entry of `over` with every entry of `each`. An entry holds a label, fields of
`sparcal.bench.report.paper.Place`, and

    only = { dataset = ["mvtec-ad-2"] }    # elsewhere the cell does not apply and shows --
    decimals, suffix                       # how its numbers are printed
    parts = [{ host = "a" }, { host = "b" }]   # several numbers in one cell, as a/b

In place of a list of entries, a word stands for all values of the plan: "host", "backbone and host", "dataset",
"category", "k", "variant"; or for a list that many tables share: "comparison" (base, +S, change), "primary metrics",
"all metrics" (AU-PRO 0.05 on MVTec AD 2 only). A cell's place is the table's, overridden by the section's, the row's,
the column's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from sparcal.bench.datasets import DATASETS
from sparcal.bench.plan.contenders import title_of
from sparcal.bench.report.labels import encoder_titles, fill_words
from sparcal.bench.report.measured import Measured
from sparcal.bench.report.paper import PAPER_TABLES, TablePlace
from sparcal.errors import DataError

Bold = Literal["", "pair", "column", "row"]

_FIELDS = TablePlace._fields
_ENTRY = ("label", "labels", "only", "decimals", "suffix", "parts", *_FIELDS)
_TABLE = ("name", "paper", "caption", "stub", "place", "bold", "sd", "sections", "rows", "columns")
_BLOCK = ("over", "each")
_WORDS = ("host", "backbone and host", "dataset", "category", "k", "variant")
_PRIMARY: tuple[dict[str, Any], ...] = (
    {"label": "Image AUROC", "metric": "image_auroc"},
    {"label": "AU-PRO 0.3", "metric": "aupro_0.3"},
)
_LISTS: dict[str, tuple[dict[str, Any], ...]] = {
    "comparison": (
        {"label": "base", "statistic": "base"},
        {"label": "+S", "statistic": "corrected"},
        {"label": "Δ", "statistic": "delta"},
    ),
    "primary metrics": _PRIMARY,
    "all metrics": (*_PRIMARY, {"label": "AU-PRO 0.05", "metric": "aupro_0.05", "only": {"dataset": ["mvtec-ad-2"]}}),
}


@dataclass(frozen=True)
class Leaf:
    """One row or column: its labels from the outside in, and what it says about its cells."""

    labels: tuple[str, ...]
    words: Mapping[str, Any]
    only: tuple[Mapping[str, Sequence[Any]], ...] = ()


@dataclass(frozen=True)
class Section:
    """A heading (empty for none) and the rows below it."""

    label: str
    words: Mapping[str, Any]
    only: tuple[Mapping[str, Sequence[Any]], ...]
    rows: tuple[Leaf, ...]


@dataclass(frozen=True)
class Layout:
    """A table before it is filled."""

    name: str
    paper: str
    caption: str
    stub: tuple[str, ...]
    bold: Bold
    sd: bool
    sections: tuple[Section, ...]
    columns: tuple[Leaf, ...]


def read_layout(data: Mapping[str, Any], measured: Measured) -> Layout:
    """The layout that an experiment file writes down, with its words replaced by what was planned."""
    where = f"table {data.get('name', '?')!r}"
    _check(data, _TABLE, where)
    if not data.get("name") or not data.get("rows") or not data.get("columns"):
        raise DataError(f"The {where} must give name, rows and columns, got {', '.join(data)}.")
    bold, paper = data.get("bold", ""), data.get("paper", "")
    if bold not in get_args(Bold):
        raise DataError(f"The {where} takes bold of pair, column or row, got {bold!r}.")
    if paper and paper not in PAPER_TABLES:
        raise DataError(
            f"The {where} names no table of the paper, got {paper!r}; choose from {', '.join(PAPER_TABLES)}."
        )
    common = dict(data.get("place", {}))
    sections = []
    for leaf in _entries(data.get("sections", ({},)), measured, common, where):
        words = {**common, **leaf.words}
        rows = _axis(data["rows"], measured, words, where)
        sections.append(Section(leaf.labels[-1] if leaf.labels else "", words, leaf.only, rows))
    return Layout(
        name=data["name"],
        paper=paper,
        caption=fill_words(data.get("caption", ""), measured.run_units),
        stub=tuple(data.get("stub", ("",))),
        bold=bold,
        sd=bool(data.get("sd", False)),
        sections=tuple(sections),
        columns=_axis(data["columns"], measured, common, where),
    )


def place_of_cell(words: Mapping[str, Any]) -> TablePlace:
    """The place that sections, rows and columns describe together."""
    fields = {name: words[name] for name in _FIELDS if name in words}
    if fields.get("correction") == "identity" and fields.get("statistic") == "corrected":
        fields["statistic"] = "base"
    missing = [name for name in ("dataset", "metric", "statistic") if name not in fields]
    if missing:
        raise DataError(
            f"A cell of a table must know its {missing[0]}, got only {fields}: say it in the table's place."
        )
    return TablePlace(**fields)


def _axis(
    blocks: Sequence[Mapping[str, Any]], measured: Measured, words: Mapping[str, Any], where: str
) -> tuple[Leaf, ...]:
    leaves = []
    for block in blocks:
        if not set(block) & set(_BLOCK):  # an entry by itself
            leaves.append(_entry(block, where))
            continue
        _check(block, _BLOCK, where)
        for outer in _entries(block.get("over", ({},)), measured, words, where):
            inner_words = {**words, **outer.words}
            for inner in _entries(block.get("each", ({},)), measured, inner_words, where):
                labels = (*outer.labels, *inner.labels)
                leaves.append(Leaf(labels, {**outer.words, **inner.words}, (*outer.only, *inner.only)))
    return tuple(leaves)


def _entries(
    given: str | Sequence[Mapping[str, Any]], measured: Measured, words: Mapping[str, Any], where: str
) -> list[Leaf]:
    if not isinstance(given, str) or given in _LISTS:
        return [_entry(entry, where) for entry in (_LISTS[given] if isinstance(given, str) else given)]
    if given == "host":
        return [Leaf((title_of(x),), {"host": x}) for x in measured.experiment.hosts]
    if given == "backbone and host":
        encoders = {x: encoder_titles(u for u in measured.run_units if u.host == x) for x in measured.experiment.hosts}
        return [Leaf((encoders[x], title_of(x)), {"host": x}) for x in measured.experiment.hosts]
    if given == "dataset":
        return [Leaf((_title(x),), {"dataset": x}) for x in measured.experiment.datasets]
    if given == "category":
        return [Leaf((x.replace("_", " "),), {"category": x}) for x in measured.categories(str(words.get("dataset")))]
    if given == "k":
        return [Leaf((f"k = {x}",), {"k": x}) for x in sorted({unit.k for unit in measured.units})]
    if given == "variant":
        return [Leaf((x.partition("=")[2] or x,), {"variant": x}) for x in measured.experiment.variants]
    known = ", ".join((*_WORDS, *_LISTS))
    raise DataError(f"The {where} takes one of {known} in place of a list, got {given!r}.")


def _entry(entry: Mapping[str, Any], where: str) -> Leaf:
    _check(entry, _ENTRY, where)
    labels = tuple(entry["labels"]) if "labels" in entry else (entry["label"],) if "label" in entry else ()
    words = {name: value for name, value in entry.items() if name not in ("label", "labels", "only")}
    return Leaf(labels, words, (entry["only"],) if "only" in entry else ())


def _check(data: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for name in data:
        if name not in known:
            raise DataError(f"The {where} has no key {name!r}; choose from {', '.join(known)}.")


def _title(dataset: str) -> str:
    return DATASETS[dataset].title if dataset in DATASETS else dataset.capitalize()
