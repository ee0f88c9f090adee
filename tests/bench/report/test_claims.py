"""The numbers that the paper states in its text are printed wherever a run has their rows."""

from __future__ import annotations

import pytest

from sparcal.bench.experiments import experiment_source
from sparcal.bench.plan.expand import Overrides, plan_units
from sparcal.bench.plan.experiment import parse_experiment
from sparcal.bench.report.claims import CLAIMS, claims_table
from sparcal.bench.report.measured import Measured
from sparcal.bench.report.paper import paper_table
from sparcal.bench.report.table import MISSING

PROMPTS = Overrides(prompts={"anomalyclip-v": "v.pth", "anomalyclip-m": "m.pth"})
STATED = {
    "main": ["+13.8", "+3.5"],
    "significance": ["+13.8", "+3.5"],
    "contamination": ["+4.4", "+1.3", "-3.5"],
    "calibration-source": ["+14.3", "-0.3"],
    "query-conditioned": ["+13.8", "+3.5"],
    "rank-sensitivity": [],
    "backbones": [],
}


def measured(name, changes=None):
    """A run whose units have the changes that the paper prints for their host, or no rows at all."""
    experiment = parse_experiment(experiment_source(name), name)
    units = plan_units(experiment, {}, PROMPTS)
    rows = []
    for unit in units if changes else ():
        row = {"unit": unit.hash, "status": "done", "diagnostics": None}
        for metric in ("image_auroc", "aupro_0.3", "aupro_0.05"):
            change = changes.get((unit.host, unit.variant, metric), 0.0)
            row |= {f"base_{metric}": 50.0, f"corrected_{metric}": 50.0 + change}
        rows.append(row)
    return Measured(experiment, units, rows)


@pytest.mark.parametrize(("name", "stated"), STATED.items())
def test_a_statement_stands_where_its_rows_are_planned(name, stated):
    table = claims_table(measured(name))
    values = [] if table is None else list(table.values())
    assert [value.paper for value in values] == stated
    assert all(value.text == MISSING for value in values)


@pytest.mark.parametrize(("name", "dataset"), [("contamination", "mvtec-ad-2"), ("calibration-source", "shift-prone")])
def test_the_papers_own_changes_give_its_statements(name, dataset):
    changes = {
        (row["host"], row["variant"], row["metric"]): row["value"]
        for row in paper_table(name)
        if row["dataset"] == dataset and row["statistic"] == "delta"
    }
    for value in claims_table(measured(name, changes)).values():
        assert value.number.value == pytest.approx(float(value.paper), abs=0.06)


def test_the_papers_pooled_changes_give_the_statement_of_the_main_results():
    changes = {
        (row["host"], "", row["metric"]): row["value"]
        for row in paper_table("main")
        if row["dataset"] == "shift-prone" and row["statistic"] == "delta"
    }
    for value in claims_table(measured("significance", changes)).values():
        assert value.number.value == pytest.approx(float(value.paper), abs=0.06)


def test_every_statement_is_printed_by_some_experiment():
    assert {claim.stated for claim in CLAIMS} == {text for texts in STATED.values() for text in texts}
