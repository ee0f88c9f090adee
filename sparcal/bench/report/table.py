"""A filled table: measured numbers, the paper's beside them, and which are bold."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sparcal.bench.report.layout import Bold, Layout, Leaf, Section, place_of_cell
from sparcal.bench.report.measured import Measured, MeasuredNumber
from sparcal.bench.report.paper import TablePlace, paper_value
from sparcal.bench.stats import holm

ABSENT = "--"  # does not apply, as in the paper
MISSING = "missing"  # planned, but not finished
UNDEFINED = "undefined"
FEWER_DRAWS = "‡"  # behind a number that some draws could not contribute to


@dataclass(frozen=True)
class CellValue:
    """One number of a cell, as text and as numbers.

    Args:
        text: as printed; ABSENT, MISSING or UNDEFINED where there is no number.
        paper: the paper's number as printed there, or empty.
    """

    text: str
    place: TablePlace | None = None
    number: MeasuredNumber | None = None
    paper: str = ""
    bold: bool = False


@dataclass(frozen=True)
class Line:
    """A row: its labels and, for each column, one or more values."""

    labels: tuple[str, ...]
    cells: tuple[tuple[CellValue, ...], ...]


@dataclass(frozen=True)
class Table:
    """A table ready to be written in any format; `sections` are a heading and its lines."""

    name: str
    caption: str
    stub: tuple[str, ...]
    columns: tuple[tuple[str, ...], ...]
    sections: tuple[tuple[str, tuple[Line, ...]], ...]

    def values(self) -> Iterator[CellValue]:
        """Every number of the table."""
        for _, lines in self.sections:
            for line in lines:
                for cell in line.cells:
                    yield from cell

    @property
    def has_fewer_draws(self) -> bool:
        """Whether some number rests on fewer draws than the others."""
        return any(FEWER_DRAWS in value.text for value in self.values())

    @property
    def has_paper(self) -> bool:
        """Whether any number of the paper stands beside one of ours."""
        return any(value.paper for value in self.values())


def fill(layout: Layout, measured: Measured) -> Table:
    """The table of a layout with the numbers of a run."""
    sections = tuple((section.label, _lines(section, layout, measured)) for section in layout.sections)
    sections = _adjusted(sections)
    table = Table(layout.name, layout.caption, layout.stub, tuple(leaf.labels for leaf in layout.columns), sections)
    return _emboldened(table, layout.bold)


def _lines(section: Section, layout: Layout, measured: Measured) -> tuple[Line, ...]:
    lines = []
    for row in section.rows:
        cells = tuple(_cell(section, row, column, layout, measured) for column in layout.columns)
        lines.append(Line(row.labels, cells))
    return tuple(lines)


def _cell(section: Section, row: Leaf, column: Leaf, layout: Layout, measured: Measured) -> tuple[CellValue, ...]:
    words = {**section.words, **row.words, **column.words}
    applies = all(
        words.get(name) in choices
        for only in (*section.only, *row.only, *column.only)
        for name, choices in only.items()
    )
    if not applies:
        return (CellValue(ABSENT),)
    return tuple(_value({**words, **part}, layout, measured) for part in words.get("parts", ({},)))


def _value(words: Mapping[str, Any], layout: Layout, measured: Measured) -> CellValue:
    place = place_of_cell(words)
    decimals, suffix = int(words.get("decimals", 1)), str(words.get("suffix", ""))
    if place.statistic == "p_holm":  # needs the whole family: see `_adjusted`
        return CellValue("", place, paper=_paper(layout, place, 3, ""))
    number = measured.number(place)
    paper = _paper(layout, place, decimals, suffix)
    return CellValue(_text(number, place, decimals, suffix, layout.sd), place, number, paper)


def value_of(number: MeasuredNumber, place: TablePlace, paper: str) -> CellValue:
    """A cell's value with one decimal, and the paper's beside it."""
    return CellValue(_text(number, place, 1, "", False), place, number, paper)


def _text(number: MeasuredNumber, place: TablePlace, decimals: int, suffix: str, sd: bool) -> str:
    if number.missing or number.missing is None:
        return MISSING
    if math.isnan(number.value):
        return UNDEFINED
    if place.statistic in ("p", "p_holm"):
        return p_text(number.value)
    text = number_text(number.value, place.statistic, decimals) + suffix
    if sd and not math.isnan(number.sd):
        text += f"±{number.sd:.{decimals}f}"
    return text + (FEWER_DRAWS if number.undefined else "")


def number_text(value: float, statistic: str, decimals: int) -> str:
    """A number as the paper prints it: changes with their sign, zero without."""
    rounded = round(value, decimals) + 0.0  # no minus before a zero
    signed = statistic in ("delta", "median_delta", "difference", "relative_delta_percent") and rounded != 0
    return f"{rounded:+.{decimals}f}" if signed else f"{rounded:.{decimals}f}"


def p_text(p: float) -> str:
    """A p value with the paper's stars."""
    stars = "***" if p < 0.001 else "**" if p < 0.01 else "*" if p < 0.05 else ""
    return f"<.001{stars}" if p < 0.001 else f"{p:.3f}".lstrip("0") + stars


def _paper(layout: Layout, place: TablePlace, decimals: int, suffix: str) -> str:
    if not layout.paper:
        return ""
    value = paper_value(layout.paper, place)
    if place.statistic in ("p", "p_holm"):
        bound = paper_value(layout.paper, place._replace(statistic="p_below"))
        if value is None and place.statistic == "p" and bound is not None:
            return f"<{bound:.3f}".replace("<0", "<")
        return "" if value is None else f"{value:.3f}".lstrip("0")
    if value is None:
        return ""
    text = number_text(value, place.statistic, decimals) + suffix
    spread = paper_value(layout.paper, place._replace(statistic=f"{place.statistic}_sd")) if layout.sd else None
    return text if spread is None else f"{text}±{spread:.{decimals}f}"


Sections = tuple[tuple[str, tuple[Line, ...]], ...]


def _adjusted(sections: Sections) -> Sections:
    """Holm's p values, all raw p values of the table being one family."""
    raw: dict[TablePlace, MeasuredNumber] = {}
    for _, lines in sections:
        for line in lines:
            for cell in line.cells:
                raw |= {v.place: v.number for v in cell if v.place and v.number and v.place.statistic == "p"}
    known = {place: number for place, number in raw.items() if not math.isnan(number.value)}
    adjusted = dict(zip(known, holm([number.value for number in known.values()]), strict=True))

    def adjust(value: CellValue) -> CellValue:
        if value.place is None or value.place.statistic != "p_holm":
            return value
        source = value.place._replace(statistic="p")
        number = raw.get(source, MeasuredNumber(math.nan, missing=None))
        if source in adjusted and len(known) == len(raw):  # a family with a hole has no adjusted values
            number = replace(number, value=adjusted[source])
        elif source in adjusted:
            number = MeasuredNumber(math.nan, missing=1)
        return replace(value, number=number, text=_text(number, value.place, 3, "", False))

    return _mapped(sections, adjust)


def _mapped(sections: Sections, change: Any) -> Sections:
    return tuple(
        (label, tuple(replace(line, cells=tuple(tuple(map(change, cell)) for cell in line.cells)) for line in lines))
        for label, lines in sections
    )


def _emboldened(table: Table, bold: Bold) -> Table:
    if not bold:
        return table
    best: set[int] = set()
    for _, lines in table.sections:
        for group in _groups(lines, table, bold):
            best |= _best(group, strict=bold == "pair")

    def mark(value: CellValue) -> CellValue:
        return replace(value, bold=id(value) in best)

    return replace(table, sections=_mapped(table.sections, mark))


def _groups(lines: Sequence[Line], table: Table, bold: Bold) -> Iterator[list[CellValue]]:
    """Values that compete for bold print."""
    if bold == "column":
        for position in range(len(table.columns)):
            yield [value for line in lines for value in line.cells[position]]
        return
    for line in lines:
        by_group: dict[str, list[CellValue]] = {}
        for labels, cell in zip(table.columns, line.cells, strict=True):
            group = "" if bold == "row" else labels[0]
            by_group.setdefault(group, []).extend(cell)
        for values in by_group.values():
            yield [v for v in values if v.place is not None and v.place.statistic in ("base", "corrected")]


def _best(values: Sequence[CellValue], *, strict: bool) -> set[int]:
    """The largest as printed; with `strict`, none where all are equal."""
    printed = {id(v): float(v.text.removesuffix(FEWER_DRAWS).split("±")[0]) for v in values if _is_number(v)}
    if len(printed) < 2 or (strict and len(set(printed.values())) == 1):
        return set()
    largest = max(printed.values())
    return {identity for identity, value in printed.items() if value == largest}


def _is_number(value: CellValue) -> bool:
    return value.text not in (ABSENT, MISSING, UNDEFINED, "") and value.number is not None
