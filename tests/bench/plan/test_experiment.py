"""The experiment files: each can be planned, and together they show every number that the paper prints."""

from __future__ import annotations

from functools import cache

import pytest

from sparcal.bench.experiments import experiment_source, experiment_titles
from sparcal.bench.plan.expand import Overrides, plan_units
from sparcal.bench.plan.experiment import parse_experiment
from sparcal.bench.report.layout import read_layout
from sparcal.bench.report.measured import Measured
from sparcal.bench.report.paper import PAPER_TABLES, paper_table, place_of
from sparcal.bench.report.table import MISSING, fill

NAMES = sorted(experiment_titles())
PROMPTS = {"anomalyclip-v": "v.pth", "anomalyclip-m": "m.pth"}


@cache
def planned(name):
    experiment = parse_experiment(experiment_source(name), name)
    units = plan_units(experiment, {}, Overrides(prompts=PROMPTS))
    return experiment, units


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_named_after_its_experiment_and_plans_units(name):
    experiment, units = planned(name)
    assert experiment.name == name
    assert experiment.title
    assert len(units) == len(set(units)) > 0
    assert experiment.tables or experiment.figures


@pytest.mark.parametrize("name", NAMES)
def test_every_cell_of_every_table_is_planned(name):
    """Without results every cell is missing; a cell that no unit could fill would be a mistake in the file."""
    experiment, units = planned(name)
    measured = Measured(experiment, units, [])
    for data in experiment.tables:
        table = fill(read_layout(data, measured), measured)
        cells = [value for value in table.values() if value.place is not None]
        assert cells
        for value in cells:
            assert value.text == MISSING
            assert value.number.missing, (table.name, value.place)


@cache
def filled():
    """Every table of every file without results: (the paper's table, whether with spread, filled table)."""
    found = []
    for name in NAMES:
        experiment, units = planned(name)
        measured = Measured(experiment, units, [])
        for data in experiment.tables:
            found.append((data.get("paper", ""), fill(read_layout(data, measured), measured)))
    return found


@pytest.mark.parametrize("name", PAPER_TABLES)
def test_every_number_of_the_paper_stands_beside_one_of_ours(name):
    values = [value for paper, table in filled() if paper == name for value in table.values() if value.paper]
    shown = {value.place for value in values}
    shown |= {v.place._replace(statistic=f"{v.place.statistic}_sd") for v in values if "±" in v.paper}
    wanted = {place_of(row) for row in paper_table(name)}
    wanted = {place._replace(statistic="p") if place.statistic == "p_below" else place for place in wanted}
    assert shown >= wanted, f"{len(wanted - shown)} are not shown, the first: {sorted(wanted - shown, key=str)[0]}"
