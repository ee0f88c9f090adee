"""Tables in four formats, and what a table says that cannot be laid out."""

from __future__ import annotations

import csv
import io
import re

import pytest

from sparcal.bench.plan.expand import Overrides, plan_units
from sparcal.bench.plan.experiment import parse_experiment
from sparcal.bench.report.layout import place_of_cell, read_layout
from sparcal.bench.report.markup import to_csv, to_html, to_latex, to_markdown
from sparcal.bench.report.measured import Measured
from sparcal.bench.report.paper import TablePlace
from sparcal.bench.report.table import CellValue, Line, Table, fill
from sparcal.errors import DataError

PLACE = TablePlace("rad", "image_auroc", "base")
TABLE = Table(
    name="small",
    caption="50 % of a_b & AU-PRO 0.3",
    stub=("Backbone", "Method"),
    columns=(("RAD", "base"), ("RAD", "Δ"), ("", "p")),
    sections=(
        (
            "Image AUROC",
            (
                Line(
                    ("WRN", "PatchCore"),
                    ((CellValue("83.6", bold=True, paper="83.5"),), (CellValue("-0.3"),), (CellValue("<.001***"),)),
                ),
                Line(
                    ("PaDiM",),
                    ((CellValue("1.0"), CellValue("2.0", paper="2.1")), (CellValue("missing"),), (CellValue("--"),)),
                ),
            ),
        ),
    ),
)


def test_markdown():
    lines = to_markdown(TABLE).splitlines()
    assert lines[0] == "**50 % of a_b & AU-PRO 0.3**"
    assert lines[2] == "| Backbone | Method | RAD base | RAD Δ |  p |"
    assert lines[4] == "| *Image AUROC* |  |  |  |  |"
    assert lines[5] == r"| WRN | PatchCore | **83.6** (83.5) | -0.3 | <.001\*\*\* |"
    assert lines[6] == "| PaDiM |  | 1.0/2.0 (2.1) | missing | -- |"
    assert lines[8] == "In brackets: the paper's number."


def test_latex():
    text = to_latex(TABLE)
    assert r"\caption{50 \% of a\_b \& AU-PRO$_{0.3}$ In brackets: the paper's number.}" in text
    assert r" &  & \multicolumn{2}{c}{RAD} & \multicolumn{1}{c}{} \\" in text
    assert r"\cmidrule(lr){3-4}" in text
    assert r"Backbone & Method & base & $\Delta$ & p \\" in text
    assert r"\multicolumn{5}{l}{\textit{Image AUROC}} \\" in text
    assert r"WRN & PatchCore & \textbf{83.6} (83.5) & $-$0.3 & $<$.001$^{***}$ \\" in text
    rows = [line for line in text.splitlines() if line.endswith(r"\\") and "multicolumn" not in line]
    assert {line.count("&") - line.count(r"\&") for line in rows} == {4}


def test_csv_has_the_papers_numbers_in_columns_of_their_own():
    rows = list(csv.reader(io.StringIO(to_csv(TABLE))))
    assert rows[0] == ["section", "Backbone", "Method", "RAD base", "RAD base (paper)", "RAD Δ", " p"]
    assert rows[1] == ["Image AUROC", "WRN", "PatchCore", "83.6", "83.5", "-0.3", "<.001***"]
    assert rows[2] == ["Image AUROC", "PaDiM", "", "1.0/2.0", "/2.1", "missing", "--"]


def test_html():
    text = to_html(TABLE)
    assert "<caption>50 % of a_b &amp; AU-PRO<sub>0.3</sub></caption>" in text
    assert '<th colspan="2">RAD</th>' in text
    assert "<td><b>83.6</b> <small>(83.5)</small></td><td>-0.3</td><td>&lt;.001***</td>" in text
    for row in re.findall(r"<tr>.*?</tr>", text)[3:]:
        assert len(re.findall(r"<t[hd]>", row)) == 5


UNITS = '[[units]]\ndatasets = ["rad"]\nhosts = ["patchcore", "padim"]\nks = [4, 8]\n'


def layout(text):
    experiment = parse_experiment('name = "x"\ntitle = "t"\n' + UNITS + text, "x")
    measured = Measured(experiment, plan_units(experiment, {}, Overrides()), [])
    return fill(read_layout(experiment.tables[0], measured), measured)


def test_words_stand_for_what_was_planned():
    table = layout(
        '[[tables]]\nname = "a"\nplace = { dataset = "rad", metric = "image_auroc", statistic = "base" }\n'
        'stub = ["a", "b"]\nrows = [{ over = "category", each = "host" }]\ncolumns = [{ over = "k" }, { label = "x", k = 2 }]\n'
    )
    assert [line.labels for line in table.sections[0][1]][:3] == [
        ("bolt", "PatchCore"),
        ("bolt", "PaDiM"),
        ("ribbon", "PatchCore"),
    ]
    assert table.columns == (("k = 4",), ("k = 8",), ("x",))
    cells = table.sections[0][1][0].cells
    assert [cell[0].place.k for cell in cells] == [4, 8, 2]
    assert [cell[0].number.missing for cell in cells] == [5, 5, None], "nothing was planned for k = 2"


def test_only_hides_what_does_not_apply():
    table = layout(
        '[[tables]]\nname = "a"\nplace = { dataset = "rad", statistic = "base" }\nsections = "all metrics"\n'
        'rows = [{ over = "host" }]\ncolumns = [{ label = "x" }]\n'
    )
    texts = {label: lines[0].cells[0][0].text for label, lines in table.sections}
    assert texts == {"Image AUROC": "missing", "AU-PRO 0.3": "missing", "AU-PRO 0.05": "--"}


ROWS = 'rows = [{ over = "host" }]\n'
COLUMNS = 'columns = [{ over = "dataset", each = "comparison" }]\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('name = "a"\n', "The table 'a' must give name, rows and columns, got name"),
        ('name = "a"\ncolour = 1\n', "The table 'a' has no key 'colour'"),
        ('name = "a"\nbold = "all"\n' + ROWS + COLUMNS, "takes bold of pair, column or row, got 'all'"),
        ('name = "a"\npaper = "best"\n' + ROWS + COLUMNS, "names no table of the paper, got 'best'"),
        ('name = "a"\nrows = [{ over = "hosts" }]\n' + COLUMNS, "takes one of host, .*comparison.* got 'hosts'"),
        ('name = "a"\nrows = [{ label = "x", hots = "padim" }]\n' + COLUMNS, "has no key 'hots'; choose from label"),
        ('name = "a"\n' + ROWS + COLUMNS, "A cell of a table must know its metric, got only"),
    ],
)
def test_a_table_that_cannot_be_laid_out_is_refused(text, message):
    with pytest.raises(DataError, match=message):
        layout("[[tables]]\n" + text)


def test_corrected_by_nothing_is_the_base():
    place = place_of_cell({"dataset": "rad", "metric": "m", "statistic": "corrected", "correction": "identity"})
    assert place.statistic == "base"
