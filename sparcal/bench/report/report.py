"""The report of a run: every table in four formats, every figure, and what is missing, undefined or failed."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparcal.bench.report.claims import claims_table
from sparcal.bench.report.drawing import Figure
from sparcal.bench.report.figures import draw_figure
from sparcal.bench.report.labels import fill_words
from sparcal.bench.report.layout import read_layout
from sparcal.bench.report.markup import to_csv, to_html, to_latex, to_markdown
from sparcal.bench.report.measured import Measured
from sparcal.bench.report.table import Table, fill
from sparcal.bench.report.used import used_table
from sparcal.bench.run.folder import RunFolder
from sparcal.bench.run.row import ResultRow, write_rows
from sparcal.files.atomic import atomic_path, remove_left_behind, require_folder

WRITERS = {"md": to_markdown, "latex": to_latex, "csv": to_csv, "html": to_html}
REPORT_SUFFIXES = {"md": ".md", "latex": ".tex", "csv": ".csv", "html": ".html"}
_TRACED = ("sparcal", "code", "torch", "timm", "python", "precision", "device", "threads", "encoder_id")
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 90rem; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: 1.5rem 0; font-variant-numeric: tabular-nums; display: block; overflow-x: auto; }
caption { text-align: left; font-weight: 600; padding-bottom: .4rem; }
th, td { padding: .2rem .6rem; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap; }
tbody th, thead th:first-child { text-align: left; font-weight: 400; }
th.section { font-style: italic; background: #f6f6f6; }
td small { color: #777; }
figure { margin: 2rem 0; } img { max-width: 100%; }
"""


@dataclass(frozen=True, eq=False)
class Report:
    """What was made of a run, and where."""

    folder: Path
    title: str
    notes: tuple[str, ...]
    tables: tuple[Table, ...]
    figures: tuple[Figure, ...]
    counts: dict[str, int]
    traces: dict[str, list[str]]

    def summary(self) -> str:
        """One sentence: how complete the run is."""
        counts = self.counts
        return (
            f"{counts['finished']} of {counts['planned']} units are finished, {counts['undefined']} of them undefined; "
            f"{counts['failed']} failed."
        )

    def text(self, form: str) -> str:
        """All tables in one format; Markdown and HTML are whole pages."""
        if form == "md":
            return _markdown_page(self)
        if form == "html":
            return _html_page(self)
        return "\n".join(WRITERS[form](table) for table in self.tables)

    def to_json(self) -> dict[str, Any]:
        """Every number of every table with its place."""
        cells = [
            {
                "table": table.name,
                **value.place._asdict(),
                "text": value.text,
                "value": value.number.value,
                "sd": value.number.sd,
                "missing": value.number.missing,
                "undefined": value.number.undefined,
                "paper": value.paper or None,
            }
            for table in self.tables
            for value in table.values()
            if value.place is not None and value.number is not None
        ]
        return {
            "folder": str(self.folder),
            "title": self.title,
            "units": self.counts,
            "notes": self.notes,
            "cells": cells,
        }


def make_report(results: RunFolder, folder: Path) -> Report:
    """Fill and write the tables and figures of a run; the same rows give the same tables, byte for byte."""
    require_folder(folder, "A report")
    for place in (folder, folder / "figures"):
        remove_left_behind(place)
    experiment = results.experiment
    units, overrides = results.plan()
    rows = results.rows()
    measured = Measured(experiment, units, rows)
    tables = [fill(read_layout(data, measured), measured) for data in experiment.tables]
    claims = claims_table(measured)
    tables += [claims] if claims is not None else []
    tables += [used_table(rows)] if rows else []
    figures = tuple(
        figure for data in experiment.figures for figure in draw_figure(data, measured, results, folder / "figures")
    )
    planned = {unit.hash: str(unit) for unit in units}
    failures = {planned[name]: reason for name, reason in results.failures().items() if name in planned}
    undefined = [row for row in rows if row["status"] == "undefined"]
    report = Report(
        folder=folder,
        title=fill_words(experiment.title, measured.run_units),
        notes=tuple(_notes(overrides, undefined, failures, rows)),
        tables=tuple(tables),
        figures=figures,
        counts={
            "planned": len(units),
            "finished": len(rows),
            "undefined": len(undefined),
            "failed": len(failures),
        },
        traces={name: sorted({str(row[name]) for row in rows if row[name] not in (None, "")}) for name in _TRACED},
    )
    _write(report, rows)
    return report


def _notes(
    overrides: str, undefined: Sequence[ResultRow], failures: dict[str, str], rows: Sequence[ResultRow]
) -> list[str]:
    notes = [f"This run was changed by its call: {overrides}."] if overrides else []
    if len({row["code"] for row in rows}) > 1:
        notes.append("Rows come from different states of the code; run again with --restart before comparing them.")
    for row in undefined:
        words = (row["dataset"], row["category"], row["host"], row["correction"], row["variant"])
        name = " ".join([*(word for word in words if word), f"k={row['k']} seed={row['seed']}"])
        notes.append(f"Undefined, in no average: {name}: {row['reason']}.")
    return [*notes, *(f"Failed: {unit}: {reason}" for unit, reason in failures.items())]


def _write(report: Report, rows: Sequence[ResultRow]) -> None:
    for table in report.tables:
        for form, write in WRITERS.items():
            _save(report.folder / "tables" / f"{table.name}{REPORT_SUFFIXES[form]}", write(table))
    _save(report.folder / "report.md", _markdown_page(report))
    _save(report.folder / "report.html", _html_page(report))
    write_rows(rows, report.folder / "units.parquet")


def _save(path: Path, text: str) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _markdown_page(report: Report) -> str:
    parts = [f"# {report.title}", report.summary(), *(to_markdown(table).strip() for table in report.tables)]
    parts += [f"![{f.name}](figures/{f.png.name})\n\n{f.caption}" for f in report.figures]
    if report.notes:
        parts.append("## Notes\n\n" + "\n".join(f"- {note}" for note in report.notes))
    traces = [f"- {name}: {', '.join(values)}" for name, values in report.traces.items() if values]
    parts.append("## Made with\n\n" + "\n".join(traces))
    return "\n\n".join(parts) + "\n"


def _html_page(report: Report) -> str:
    title = html.escape(report.title)
    parts = [f"<h1>{title}</h1>", f"<p>{html.escape(report.summary())}</p>"]
    parts += [to_html(table) for table in report.tables]
    if any(table.has_paper for table in report.tables):
        parts.append("<p>Small, in brackets: the paper's numbers.</p>")
    for figure in report.figures:
        data = base64.b64encode(figure.png.read_bytes()).decode()
        caption = html.escape(figure.caption)
        parts.append(
            f'<figure><img alt="{html.escape(figure.name)}" src="data:image/png;base64,{data}">'
            f"<figcaption>{caption}</figcaption></figure>"
        )
    if report.notes:
        parts.append("<h2>Notes</h2><ul>" + "".join(f"<li>{html.escape(n)}</li>" for n in report.notes) + "</ul>")
    rows = [
        f"<tr><th>{name}</th><td>{html.escape(', '.join(values))}</td></tr>"
        for name, values in report.traces.items()
        if values
    ]
    parts.append("<h2>Made with</h2><table><tbody>" + "".join(rows) + "</tbody></table>")
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{title}</title><style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )
