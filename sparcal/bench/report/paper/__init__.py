"""The numbers that the SPARC paper prints, one file per table, in long form: one row per printed number.

Column values, so that a measured unit can be put beside its printed number:

* `dataset`: a benchmark's name, or what was averaged: "shift-prone" and "shift-free" (every category weighs the same
  within the two benchmarks), "all" (the same over all 28 categories), "mean-of-datasets" (each of the four benchmarks
  weighs the same).
* `category`: empty for an average over categories. `host`: empty for an average over hosts.
* `correction`: a name from sparcal.corrections, or "batchnorm". `variant`: what else was changed, as `rank=3`.
* `statistic`: "base", "corrected", "delta" (before rounding), each with "_sd" over five draws; "p", "p_holm", and
  "p_below" where the paper prints only an upper bound; a few more that one table needs.

Scores are on a 0-100 scale. What the paper prints is kept also where it contradicts itself; the tests list those places.
"""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple, TypedDict

from sparcal.errors import DataError

PAPER_TABLES = (
    "main",
    "main-aupro-0.05",
    "feature-controls",
    "feature-controls-detailed",
    "query-conditioned",
    "coral-by-detector",
    "coral-budget",
    "correction-modes",
    "rank-sensitivity",
    "symmetric-use",
    "calibration-size",
    "contamination",
    "backbones",
    "visa-geometry",
    "cross-scene",
    "mean-removal",
    "calibration-source",
    "energy-decomposition",
    "alignment-contrast",
    "significance",
    "variability",
    "few-shot-per-category",
    "per-category-mvtec-ad-2",
    "per-category-aebad-s",
    "per-category-visa",
    "per-category-rad",
)


class PaperRow(TypedDict):
    """One number that the paper prints; `decimals` says how far it was rounded."""

    table: str
    dataset: str
    category: str
    host: str
    correction: str
    variant: str
    k: int
    metric: str
    statistic: str
    value: float
    decimals: int


class TablePlace(NamedTuple):
    """Where in a table a number stands; the defaults are those of the main table."""

    dataset: str
    metric: str
    statistic: str
    host: str = ""
    category: str = ""
    correction: str = "sparc"
    variant: str = ""
    k: int = 8


def paper_table(name: str) -> list[PaperRow]:
    """Every number of one table of the paper, in the order it is printed."""
    if name not in PAPER_TABLES:
        raise DataError(f"unknown table of the paper {name!r}; choose from {', '.join(PAPER_TABLES)}.")
    text = files(__package__).joinpath(f"{name}.csv").read_text(encoding="utf-8")
    return [_row(name, line) for line in csv.DictReader(text.splitlines())]


def paper_value(table: str, place: TablePlace) -> float | None:
    """The number that the paper prints in this place of a table; None where it prints none."""
    return _values(table).get(place)


def _row(table: str, line: dict[str, str]) -> PaperRow:
    return PaperRow(
        table=table,
        dataset=line["dataset"],
        category=line["category"],
        host=line["host"],
        correction=line["correction"],
        variant=line["variant"],
        k=int(line["k"]),
        metric=line["metric"],
        statistic=line["statistic"],
        value=float(line["value"]),
        decimals=len(line["value"].partition(".")[2]),
    )


@cache
def _values(table: str) -> dict[TablePlace, float]:
    return {place_of(row): row["value"] for row in paper_table(table)}


def place_of(row: PaperRow) -> TablePlace:
    """Where in its table a printed number stands."""
    return TablePlace(
        dataset=row["dataset"],
        metric=row["metric"],
        statistic=row["statistic"],
        host=row["host"],
        category=row["category"],
        correction=row["correction"],
        variant=row["variant"],
        k=row["k"],
    )
