"""Numbers by place: against the paper's own averages and tests, against loops, and with holes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparcal.bench.experiments import experiment_source
from sparcal.bench.metrics import METRICS
from sparcal.bench.plan.expand import Overrides, plan_units
from sparcal.bench.plan.experiment import MEAN_OF_DATASETS, parse_experiment
from sparcal.bench.report.layout import read_layout
from sparcal.bench.report.markup import to_html, to_latex, to_markdown
from sparcal.bench.report.measured import Measured
from sparcal.bench.report.paper import TablePlace, paper_table
from sparcal.bench.report.table import ABSENT, FEWER_DRAWS, MISSING, UNDEFINED, fill, number_text, p_text
from sparcal.errors import DataError

PROMPTS = Overrides(prompts={"anomalyclip-v": "v.pth", "anomalyclip-m": "m.pth"})
DATASETS = ("mvtec-ad-2", "aebad-s", "visa", "rad")


def row_of(unit, numbers=None, **more):
    """A row with what tables read; `numbers` is (base, corrected) for each metric."""
    values = dict.fromkeys((f"{side}_{name}" for side in ("base", "corrected") for name in METRICS), None)
    for name, (base, corrected) in (numbers or {}).items():
        values |= {f"base_{name}": base, f"corrected_{name}": corrected}
    return {"unit": unit.hash, "status": "done", "diagnostics": None, **values, **more}


@pytest.fixture(scope="module")
def printed():
    """(dataset, category, host, metric) -> (base, corrected) as the paper prints them."""
    found = {}
    for dataset in DATASETS:
        for row in paper_table(f"per-category-{dataset}"):
            key = (dataset, row["category"], row["host"], row["metric"])
            found.setdefault(key, {})[row["statistic"]] = row["value"]
    return {key: (both["base"], both["corrected"]) for key, both in found.items()}


def from_categories(name, printed):
    """An experiment whose units have the paper's category numbers, the same in all seeds."""
    experiment = parse_experiment(experiment_source(name), name)
    units = plan_units(experiment, {}, PROMPTS)
    rows = [
        row_of(unit, {m: printed[unit.dataset, unit.category, unit.host, m] for m in ("image_auroc", "aupro_0.3")})
        for unit in units
    ]
    measured = Measured(experiment, units, rows)
    return fill(read_layout(experiment.tables[0], measured), measured)


def test_the_main_table_follows_from_the_category_tables(printed):
    """Averages of the paper's rounded categories give its main table to within rounding."""
    table = from_categories("main", printed)
    compared = 0
    for value in table.values():
        assert abs(float(value.text) - float(value.paper)) <= 0.15, (value.place, value.text, value.paper)
        compared += 1
    assert compared == 2 * 9 * 14


def test_bold_print_agrees_with_the_paper(printed):
    """Base is bold or +S is, or neither where both print the same."""
    lines = [line for _, lines in from_categories("main", printed).sections for line in lines]
    for line in lines:
        for base, corrected in itertools.pairwise(line.cells[:12]):
            if base[0].place.statistic != "base":
                continue
            larger = float(corrected[0].text) - float(base[0].text)
            assert (base[0].bold, corrected[0].bold) == (larger < 0, larger > 0)
    assert not any(cell[0].bold for line in lines for cell in line.cells[12:])


def test_significance_follows_from_the_category_tables(printed):
    table = from_categories("significance", printed)
    for _, lines in table.sections:
        for line in lines:
            count, mean, median, raw, adjusted = (cell[0] for cell in line.cells)
            assert count.text == count.paper == "12"
            assert abs(mean.number.value - float(mean.paper)) < 0.1
            assert abs(median.number.value - float(median.paper)) < 0.1
            if raw.paper.startswith("<"):
                assert raw.number.value < 0.001
            else:
                assert raw.number.value == pytest.approx(float(raw.paper), abs=0.02)
            assert adjusted.number.value == pytest.approx(float(adjusted.paper), abs=0.02)
            assert adjusted.number.value >= raw.number.value


SMALL = """
name = "small"
title = "t"
[[units]]
datasets = ["aebad-s", "rad"]
hosts = ["patchcore", "padim"]
corrections = ["sparc", "coral"]
seeds = 3
[[units]]
datasets = ["aebad-s"]
hosts = ["patchcore"]
variants = ["source=train", "source=deployment", "scene-disjoint"]
seeds = 3
"""


def small(change=lambda _unit, row: row, seed=0):
    """Random numbers; `change` may drop a row (None) or replace it."""
    experiment = parse_experiment(SMALL, "small")
    units = plan_units(experiment, {}, Overrides())
    random = np.random.default_rng(seed)
    bases: dict = {}
    rows = {}
    for unit in units:
        key = (unit.dataset, unit.category, unit.host, unit.seed, unit.setting)
        base = bases.setdefault(key, random.uniform(40, 90, 3))
        corrected = base + random.normal(0, 5, 3)
        row = row_of(unit, {m: (float(base[i]), float(corrected[i])) for i, m in enumerate(METRICS)})
        if unit.hash not in rows and change(unit, row) is not None:
            rows[unit.hash] = change(unit, row)
    return Measured(experiment, units, list(rows.values())), {unit: rows.get(unit.hash) for unit in units}


def loop(rows, statistic, *, datasets, host="patchcore", metric="image_auroc", correction="sparc", variant=""):
    """Mean over categories in each seed, then mean and deviation over seeds, straight."""
    seeds = []
    for seed in range(3):
        values = []
        for unit, row in rows.items():
            if (unit.host, unit.correction, unit.variant, unit.seed) != (host, correction, variant, seed):
                continue
            if unit.dataset in datasets:
                base, corrected = row[f"base_{metric}"], row[f"corrected_{metric}"]
                values.append({"base": base, "corrected": corrected, "delta": corrected - base}[statistic])
        seeds.append(sum(values) / len(values))
    return np.mean(seeds), np.std(seeds, ddof=1)


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.sampled_from(("base", "corrected", "delta")), st.sampled_from(METRICS))
def test_averages_against_loops(seed, statistic, metric):
    measured, rows = small(seed=seed)
    for dataset, members in (("aebad-s", ("aebad-s",)), ("all", ("aebad-s", "rad")), ("shift-free", ("rad",))):
        found = measured.number(TablePlace(dataset, metric, statistic, "patchcore"))
        expected = loop(rows, statistic, datasets=members, metric=metric)
        assert (found.value, found.sd) == pytest.approx(expected)
        spread = measured.number(TablePlace(dataset, metric, f"{statistic}_sd", "patchcore"))
        assert spread.value == pytest.approx(expected[1])


def test_means_of_datasets_and_of_hosts():
    measured, rows = small()
    parts = [loop(rows, "delta", datasets=(name,))[0] for name in ("aebad-s", "rad")]
    found = measured.number(TablePlace(MEAN_OF_DATASETS, "image_auroc", "delta", "patchcore"))
    assert found.value == pytest.approx(np.mean(parts))
    hosts = [loop(rows, "delta", datasets=("rad",), host=host)[0] for host in ("patchcore", "padim")]
    assert measured.number(TablePlace("rad", "image_auroc", "delta")).value == pytest.approx(np.mean(hosts))


def test_one_category_and_the_base_alone():
    measured, rows = small()
    values = [row["base_image_auroc"] for unit, row in rows.items() if unit.category == "view" and unit.host == "padim"]
    found = measured.number(
        TablePlace("aebad-s", "image_auroc", "base", "padim", category="view", correction="identity")
    )
    assert found.value == pytest.approx(np.mean(values))
    assert measured.number(TablePlace("aebad-s", "image_auroc", "delta", "padim", correction="identity")).value == 0


def test_the_contrast_of_two_variants():
    measured, rows = small()
    sides = [
        loop(rows, "delta", datasets=("aebad-s",), variant=f"source={source}")[0] for source in ("deployment", "train")
    ]
    place = TablePlace("aebad-s", "image_auroc", "difference", "patchcore", variant="deployment-train")
    assert measured.number(place).value == pytest.approx(sides[0] - sides[1])
    assert 0 < measured.number(place._replace(statistic="p")).value <= 1


def test_a_missing_unit_makes_every_number_missing_that_needs_it():
    dropped = ("aebad-s", "view", "patchcore", "sparc", "", 1)

    _, everything = small()
    gone = {
        unit.hash
        for unit in everything
        if (unit.dataset, unit.category, unit.host, unit.correction, unit.variant, unit.seed) == dropped
    }
    measured, _ = small(lambda unit, row: None if unit.hash in gone else row)
    for dataset in ("aebad-s", "all", MEAN_OF_DATASETS):
        found = measured.number(TablePlace(dataset, "image_auroc", "delta", "patchcore"))
        assert found.missing == 1
        assert np.isnan(found.value)
    assert measured.number(TablePlace("rad", "image_auroc", "delta", "patchcore")).missing == 0
    assert measured.number(TablePlace("aebad-s", "image_auroc", "delta", "padim")).missing == 0
    base = measured.number(TablePlace("aebad-s", "image_auroc", "base", "patchcore", correction="identity"))
    assert base.missing == 0, "CORAL's unit has the same base"
    assert measured.number(TablePlace("visa", "image_auroc", "delta", "patchcore")).missing is None


SCENES = """
name = "scenes"
title = "t"
[[units]]
datasets = ["mvtec-ad-2"]
hosts = ["patchcore", "anomalydino"]
variants = ["scene-disjoint"]
"""


def test_a_draw_without_a_number_does_not_shift_the_average(printed):
    """The paper's own bases, with holes: every category still weighs the same, and equal draws have no spread."""
    experiment = parse_experiment(SCENES, "scenes")
    units = plan_units(experiment, {}, Overrides())
    holes = {("sheet_metal", 0), ("sheet_metal", 1), ("fruit_jelly", 2), ("vial", 4)}
    rows = [
        row_of(unit, status="undefined")
        if (unit.category, unit.seed) in holes
        else row_of(unit, {m: printed[unit.dataset, unit.category, unit.host, m] for m in ("image_auroc", "aupro_0.3")})
        for unit in units
    ]
    measured = Measured(experiment, units, rows)
    for host, metric, paper in (("patchcore", "image_auroc", 68.7), ("anomalydino", "aupro_0.3", 59.9)):
        number = measured.number(TablePlace("mvtec-ad-2", metric, "base", host, variant="scene-disjoint"))
        assert number.value == pytest.approx(paper, abs=0.1)
        assert number.sd == pytest.approx(0, abs=1e-9)
        assert number.undefined == 4


def test_categories_are_averaged_first_and_the_spread_is_of_those_with_all_draws():
    def undefine(unit, row):
        gone = unit.variant == "scene-disjoint" and unit.category == "view" and unit.seed == 0
        return row_of(unit, status="undefined") if gone else row

    measured, rows = small(undefine)
    place = TablePlace("aebad-s", "image_auroc", "delta", "patchcore", variant="scene-disjoint")
    found = measured.number(place)
    changes = {}
    for unit, row in rows.items():
        if unit.variant == "scene-disjoint" and row["status"] == "done":
            changes.setdefault(unit.category, {})[unit.seed] = row["corrected_image_auroc"] - row["base_image_auroc"]
    assert found.value == pytest.approx(np.mean([np.mean(list(by_seed.values())) for by_seed in changes.values()]))
    whole = [by_seed for by_seed in changes.values() if len(by_seed) == 3]
    assert len(whole) == 3
    spread = np.std([np.mean([by_seed[seed] for by_seed in whole]) for seed in range(3)], ddof=1)
    assert (found.sd, found.undefined, found.missing) == (pytest.approx(spread), 1, 0)
    one = measured.number(place._replace(category="view"))
    assert one.value == pytest.approx(np.mean(list(changes["view"].values())))
    assert np.isnan(one.sd), "two of three draws are no spread over draws"
    measured, _ = small(lambda unit, row: row_of(unit, status="undefined") if unit.variant == "scene-disjoint" else row)
    found = measured.number(place)
    assert np.isnan(found.value)
    assert found.missing == 0


def test_a_cell_that_rests_on_fewer_draws_is_marked():
    def undefine(unit, row):
        gone = unit.variant == "scene-disjoint" and unit.category == "view" and unit.seed == 0
        return row_of(unit, status="undefined") if gone else row

    measured, _ = small(undefine)
    layout = {
        "name": "t",
        "sd": True,
        "bold": "row",
        "place": {"dataset": "aebad-s", "metric": "image_auroc", "host": "patchcore"},
        "rows": [{"label": "all"}, {"label": "new scenes", "variant": "scene-disjoint"}],
        "columns": [{"label": "base", "statistic": "base"}, {"label": "+S", "statistic": "corrected"}],
    }
    table = fill(read_layout(layout, measured), measured)
    whole, fewer = (line.cells for _, lines in table.sections for line in lines)
    assert FEWER_DRAWS not in "".join(value.text for cell in whole for value in cell)
    assert all(value.text.endswith(FEWER_DRAWS) for cell in fewer for value in cell)
    assert [value.bold for cell in fewer for value in cell].count(True) == 1
    for write in (to_markdown, to_html, to_latex):
        assert "rests on fewer draws" in write(table)
    assert r"$^\ddagger$" in to_latex(table)


def test_diagnostics_pool_sums_and_counts():
    text = 'name = "d"\ntitle = "t"\n[[units]]\ndatasets = ["rad"]\nhosts = ["features"]\nseeds = 2\n'
    experiment = parse_experiment(text, "d")
    units = plan_units(experiment, {}, Overrides())
    held = {
        "dc_energy": 2.0,
        "subspace_energy": 6.0,
        "isotropic": 0.01,
        "rho_anom_sum": 1.0,
        "rho_anom_count": 10.0,
        "base_anomalous_sum": 30.0,
        "base_anomalous_count": 10.0,
        "base_normal_sum": 100.0,
        "base_normal_count": 100.0,
        "sparc_anomalous_sum": 25.0,
        "sparc_anomalous_count": 10.0,
        "sparc_normal_sum": 20.0,
        "sparc_normal_count": 100.0,
    }
    more = {**held, "rho_anom_sum": 9.0, "rho_anom_count": 30.0, "dc_energy": 4.0}
    rows = [row_of(unit, diagnostics=more if unit.seed else held) for unit in units]
    measured = Measured(experiment, units, rows)

    def value(metric, statistic="value"):
        return measured.number(TablePlace("rad", metric, statistic)).value

    assert value("rho_anom") == pytest.approx(10 / 40), "pooled over cells, not averaged over draws"
    assert value("rho_anom", "ratio_to_isotropic") == pytest.approx(25)
    assert value("dc_fraction") == pytest.approx(3 / 9)
    assert [value("contrast", s) for s in ("base", "corrected", "delta")] == pytest.approx([2.0, 2.3, 0.3])
    assert value("contrast", "relative_delta_percent") == pytest.approx(15)
    assert np.isnan(Measured(experiment, units, rows[1:]).number(TablePlace("rad", "rho_anom", "value")).value)


def test_an_unknown_statistic_is_refused():
    measured, _ = small()
    with pytest.raises(DataError, match="unknown statistic 'mode'; choose from base, corrected"):
        measured.number(TablePlace("rad", "image_auroc", "mode", "patchcore"))


@pytest.mark.parametrize(
    ("value", "statistic", "decimals", "text"),
    [
        (14.84, "delta", 1, "+14.8"),
        (-0.04, "delta", 1, "0.0"),
        (-0.31, "delta", 1, "-0.3"),
        (83.64, "corrected", 1, "83.6"),
        (12.0, "n", 0, "12"),
        (0.1191, "value", 3, "0.119"),
    ],
)
def test_numbers_as_the_paper_prints_them(value, statistic, decimals, text):
    assert number_text(value, statistic, decimals) == text


def test_p_values_as_the_paper_prints_them():
    assert [p_text(p) for p in (0.0002, 0.001, 0.039, 0.064)] == ["<.001***", ".001**", ".039*", ".064"]


def test_words_for_what_is_not_a_number():
    assert len({ABSENT, MISSING, UNDEFINED}) == 3
    assert not any(word.replace(".", "").isdigit() for word in (ABSENT, MISSING, UNDEFINED))
