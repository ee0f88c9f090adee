"""A table as Markdown, LaTeX, CSV and HTML; in each, the paper's number stands in brackets behind ours."""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Callable, Sequence
from itertools import groupby

from sparcal.bench.report.table import FEWER_DRAWS, CellValue, Line, Table

PAPER_NOTE = "In brackets: the paper's number."
FEWER_DRAWS_NOTE = f"{FEWER_DRAWS} rests on fewer draws: the others leave no normal image to evaluate."
_AUPRO = re.compile(r"AU-PRO (0\.\d+)")
_LATEX = {
    "&": r"\&",
    "%": r"\%",
    "_": r"\_",
    "#": r"\#",
    "Δ": r"$\Delta$",
    "±": r"$\pm$",
    "\u00d7": r"$\times$",
    "†": r"$^\dagger$",
    "‡": r"$^\ddagger$",
    "<": "$<$",
    "\u03c1": r"$\rho$",
}


def to_markdown(table: Table) -> str:
    """A Markdown table, headings joined into one line, section headings as rows of their own."""
    header = [*table.stub, *(" ".join(labels) for labels in table.columns)]
    lines = [f"**{table.caption}**", ""] if table.caption else []
    lines += [_pipe(header), _pipe([*("---" for _ in table.stub), *("---:" for _ in table.columns)])]
    for label, rows in table.sections:
        if label:
            lines.append(_pipe([f"*{label}*", *("" for _ in header[1:])]))
        lines += [_pipe([*_labels(table, row), *(_cell(cell, _markdown) for cell in row.cells)]) for row in rows]
    for note in _notes(table):
        lines += ["", note]
    return "\n".join(lines) + "\n"


def to_latex(table: Table) -> str:
    """A booktabs table with grouped headings."""
    spec = "l" * len(table.stub) + "r" * len(table.columns)
    width = len(table.stub) + len(table.columns)
    caption = " ".join([table.caption, *_notes(table)])
    lines = [
        r"\begin{table}",
        rf"\caption{{{_tex(caption)}}}",
        rf"\label{{tab:{table.name}}}",
        r"\centering",
        rf"\begin{{tabular}}{{{spec}}}",
        r"\toprule",
        *_latex_header(table),
        r"\midrule",
    ]
    for number, (label, rows) in enumerate(table.sections):
        if number:
            lines.append(r"\midrule")
        if label:
            lines.append(rf"\multicolumn{{{width}}}{{l}}{{\textit{{{_tex(label)}}}}} \\")
        for row in rows:
            cells = [*(_tex(text) for text in _labels(table, row)), *(_cell(cell, _latex) for cell in row.cells)]
            lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"]) + "\n"


def to_csv(table: Table) -> str:
    """The same rows and columns; where the paper has numbers, a second column for each holds them."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = [" ".join(labels) for labels in table.columns]
    beside = [
        any(v.paper for _, rows in table.sections for row in rows for v in row.cells[i]) for i in range(len(names))
    ]
    header = ["section"] if any(label for label, _ in table.sections) else []
    heads = [[name, f"{name} (paper)"] if both else [name] for name, both in zip(names, beside, strict=True)]
    writer.writerow([*header, *(stub or "row" for stub in table.stub), *(name for head in heads for name in head)])
    for label, rows in table.sections:
        for row in rows:
            cells: list[str] = []
            for cell, both in zip(row.cells, beside, strict=True):
                cells.append("/".join(value.text for value in cell))
                cells += ["/".join(value.paper for value in cell)] if both else []
            writer.writerow([*([label] if header else []), *_labels(table, row), *cells])
    return out.getvalue()


def to_html(table: Table) -> str:
    """A table element with grouped headings and a caption."""
    lines = [f'<table id="{html.escape(table.name)}">', f"<caption>{_rich(table.caption)}</caption>", "<thead>"]
    outer, inner = _groups(table), [labels[-1] for labels in table.columns]
    stubs = "".join(f'<th rowspan="2">{_rich(stub)}</th>' for stub in table.stub)
    lines.append(f"<tr>{stubs}" + "".join(f'<th colspan="{n}">{_rich(name)}</th>' for name, n in outer) + "</tr>")
    lines.append("<tr>" + "".join(f"<th>{_rich(name)}</th>" for name in inner) + "</tr></thead><tbody>")
    width = len(table.stub) + len(table.columns)
    for label, rows in table.sections:
        if label:
            lines.append(f'<tr><th class="section" colspan="{width}">{_rich(label)}</th></tr>')
        for row in rows:
            heads = "".join(f"<th>{_rich(text)}</th>" for text in _labels(table, row))
            lines.append(f"<tr>{heads}" + "".join(f"<td>{_cell(cell, _html)}</td>" for cell in row.cells) + "</tr>")
    lines.append("</tbody></table>")
    if table.has_fewer_draws:
        lines.append(f"<p>{_rich(FEWER_DRAWS_NOTE)}</p>")
    return "\n".join(lines) + "\n"


def _notes(table: Table) -> list[str]:
    """What a reader of the numbers must know, a sentence each."""
    return [*([PAPER_NOTE] if table.has_paper else []), *([FEWER_DRAWS_NOTE] if table.has_fewer_draws else [])]


def _labels(table: Table, row: Line) -> list[str]:
    """As many labels as the stub has columns."""
    missing = len(table.stub) - len(row.labels)
    if missing < 0:
        return [*row.labels[: len(table.stub) - 1], " ".join(row.labels[len(table.stub) - 1 :])]
    return [*row.labels, *("" for _ in range(missing))]


def _groups(table: Table) -> list[tuple[str, int]]:
    """Outer headings and how many columns each spans."""
    outer = ["" if len(labels) < 2 else labels[0] for labels in table.columns]
    return [(name, len(list(same))) for name, same in groupby(outer)]


def _cell(cell: Sequence[CellValue], write: Callable[[str, CellValue], str]) -> str:
    """The numbers of a cell, then the paper's in brackets."""
    ours = "/".join(write(value.text, value) for value in cell)
    paper = "/".join(value.paper for value in cell if value.paper)
    plain = CellValue("")
    return f"{ours} {write(f'({paper})', plain)}" if paper else ours


def _markdown(text: str, value: CellValue) -> str:
    escaped = text.replace("*", r"\*")
    return f"**{escaped}**" if value.bold else escaped


def _latex(text: str, value: CellValue) -> str:
    stars = re.fullmatch(r"(.*?)(\*+)", text)
    written = f"{_tex(stars[1])}$^{{{stars[2]}}}$" if stars else re.sub(r"(?<![\d.])-(?=\d)", "$-$", _tex(text))
    return rf"\textbf{{{written}}}" if value.bold else written


def _html(text: str, value: CellValue) -> str:
    written = html.escape(text)
    if value.text == "":
        return f"<small>{written}</small>"
    return f"<b>{written}</b>" if value.bold else written


def _pipe(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def _tex(text: str) -> str:
    escaped = "".join(_LATEX.get(character, character) for character in text)
    return _AUPRO.sub(r"AU-PRO$_{\1}$", escaped)


def _rich(text: str) -> str:
    return _AUPRO.sub(r"AU-PRO<sub>\1</sub>", html.escape(text))


def _latex_header(table: Table) -> list[str]:
    inner = " & ".join([*(_tex(stub) for stub in table.stub), *(_tex(labels[-1]) for labels in table.columns)])
    groups = _groups(table)
    if not any(name for name, _ in groups):
        return [inner + r" \\"]
    spans = [rf"\multicolumn{{{count}}}{{c}}{{{_tex(name)}}}" for name, count in groups]
    rules, start = [], len(table.stub) + 1
    for name, count in groups:
        if name:
            rules.append(rf"\cmidrule(lr){{{start}-{start + count - 1}}}")
        start += count
    return [" & ".join([*("" for _ in table.stub), *spans]) + r" \\", "".join(rules), inner + r" \\"]
