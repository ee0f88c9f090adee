"""Labels say what ran: encoders, draws and calibration sizes come from the units that have rows."""

from __future__ import annotations

import pytest

from sparcal.bench.plan.expand import Overrides, plan_units
from sparcal.bench.plan.experiment import parse_experiment
from sparcal.bench.report.labels import encoder_title, fill_words
from sparcal.bench.report.layout import read_layout
from sparcal.bench.report.measured import Measured
from sparcal.bench.report.table import fill
from sparcal.hosts import HOSTS

TEXT = """
name = "x"
title = "t"
[[units]]
datasets = ["rad"]
hosts = ["patchcore", "padim"]
[[tables]]
name = "x"
caption = "At k = {k}, mean over {draws}, on {encoder}."
stub = ["Backbone", "Method"]
place = { dataset = "rad", metric = "image_auroc", statistic = "delta" }
rows = [{ over = "backbone and host" }]
columns = [{ label = "delta" }]
"""

TITLES = ["WRN-50", "WRN-50", "WRN-50", "DINOv2-S/14", "DINOv2-G", "CLIP-B/16", "CLIP-L/14", "CLIP-L/14", "CLIP-L/14"]


def table(measured):
    return fill(read_layout(measured.experiment.tables[0], measured), measured)


def measured(rows=(), **options):
    experiment = parse_experiment(TEXT, "x")
    units = plan_units(experiment, {}, Overrides(**options))
    return Measured(experiment, units, [{"unit": unit.hash} for unit in units if unit.seed in rows])


def test_the_papers_encoders_have_the_papers_names():
    assert [encoder_title(host.encoder) for host in HOSTS.values()] == TITLES
    assert encoder_title("bundled") == "bundled"
    assert encoder_title("timm:resnet18.tv_in1k?size=64") == "resnet18.tv_in1k"


def test_another_encoder_is_named_and_not_the_hosts_own():
    made = table(measured(encoders={"padim": "bundled"}))
    assert [line.labels for _, lines in made.sections for line in lines] == [
        ("WRN-50", "PatchCore"),
        ("bundled", "PaDiM"),
    ]
    assert made.caption == "At k = 8, mean over five draws, on bundled and WRN-50."


@pytest.mark.parametrize(("options", "draws"), [({"seeds": 1}, "one draw"), ({"seeds": 2}, "two draws")])
def test_fewer_seeds_are_fewer_draws(options, draws):
    assert f"mean over {draws}," in table(measured(**options)).caption


def test_what_has_rows_counts_once_there_are_any():
    units = measured(rows=(0, 1, 2))
    assert fill_words("{draws}, seeds {seed}", units.run_units) == "three draws, seeds 0, 1 and 2"
