"""Figures: curves through the right points, grids with the right maps, and what cannot be drawn."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from PIL import Image

from sparcal.bench.plan.expand import Overrides, plan_units
from sparcal.bench.plan.experiment import parse_experiment
from sparcal.bench.plan.protocol import CalibrationDraw
from sparcal.bench.report import figures
from sparcal.bench.report.drawing import coloured
from sparcal.bench.report.figures import draw_figure
from sparcal.bench.report.measured import Measured
from sparcal.bench.report.paper import TablePlace, paper_value
from sparcal.bench.run.folder import start_results
from sparcal.bench.run.pictures import ExamplePicture
from sparcal.bench.run.row import new_row
from sparcal.bench.run.workplace import Workplace
from sparcal.errors import DataError

CURVES = """
name = "x"
title = "t"
[[units]]
datasets = ["visa"]
hosts = ["patchcore", "padim"]
variants = ["rank=1", "rank=2"]
seeds = 2
[[figures]]
name = "rank"
kind = "curves"
caption = "Curves."
paper = "rank-sensitivity"
variants = ["rank=1", "rank=2"]
x = "rank"
panels = [
    { label = "(a)", dataset = "visa", metric = "image_auroc" },
    { label = "(b)", dataset = "visa", metric = "aupro_0.3", hosts = ["padim"] },
]
"""


def run_of(text, tmp_path):
    experiment = parse_experiment(text, "x.toml")
    units = plan_units(experiment, {}, Overrides(categories=2))
    return experiment, units, start_results(tmp_path / "r", text, units)


def rows_of(units, tmp_path):
    rows = []
    for number, unit in enumerate(units):
        row = new_row(unit, CalibrationDraw((), ()), tmp_path, Workplace({}, "", ""))
        for name in ("image_auroc", "aupro_0.3", "aupro_0.05"):
            row |= {f"base_{name}": 50.0, f"corrected_{name}": 50.0 + number}
        rows.append(row)
    return rows


def kept(monkeypatch):
    """The figures that are saved, kept open to look at."""
    seen = []
    save = figures.save_figure

    def look(plots, figure, *words):
        seen.append([[(line.get_linestyle(), line.get_ydata()) for line in axis.lines] for axis in figure.axes])
        return save(plots, figure, *words)

    monkeypatch.setattr(figures, "save_figure", look)
    return seen


def test_curves_pass_through_the_measured_and_the_papers_numbers(tmp_path, monkeypatch):
    experiment, units, results = run_of(CURVES, tmp_path)
    measured = Measured(experiment, units, rows_of(units, tmp_path))
    seen = kept(monkeypatch)
    (made,) = draw_figure(experiment.figures[0], measured, results, tmp_path / "figures")
    first, second = seen[0]
    places = [TablePlace("visa", "image_auroc", "delta", "patchcore", variant=f"rank={r}") for r in (1, 2)]
    assert first[0][0] == "-"
    assert list(first[0][1]) == [measured.number(place).value for place in places]
    assert first[1][0] == ":"
    assert list(first[1][1]) == [paper_value("rank-sensitivity", place) for place in places]
    assert len(first) == 5, "two hosts, each with the paper's curve, and zero"
    assert len(second) == 3
    assert made.caption == "Curves. Dotted: the paper's numbers."
    assert not plt.get_fignums(), "nothing stays open"


def test_the_same_run_gives_the_same_files(tmp_path):
    experiment, units, results = run_of(CURVES, tmp_path)
    measured = Measured(experiment, units, rows_of(units, tmp_path))
    made = [draw_figure(experiment.figures[0], measured, results, tmp_path / name)[0] for name in "ab"]
    assert made[0].png.read_bytes() == made[1].png.read_bytes()
    assert made[0].pdf.read_bytes() == made[1].pdf.read_bytes()


GRID = """
name = "x"
title = "t"
[[units]]
datasets = ["visa"]
hosts = ["patchcore", "padim"]
seeds = 1
pictures = true
[[figures]]
name = "maps"
kind = "hosts"
dataset = "visa"
page = 1
[[figures]]
name = "sides"
kind = "sides"
host = "padim"
"""


def picture(seed):
    random = np.random.default_rng(seed)
    heat = random.random((2, 20, 30)).astype(np.float32)
    image = random.integers(0, 255, (20, 30, 3), dtype=np.uint8)
    return ExamplePicture(f"{seed}.png", image, heat[0] > 0.9, heat[0], heat[1] * 3)


def test_grids_have_pages_and_say_what_is_missing(tmp_path, monkeypatch):
    experiment, units, results = run_of(GRID, tmp_path)
    left_out = [unit for unit in units if unit.host == "padim"][-1]
    for number, unit in enumerate(unit for unit in units if unit != left_out):
        row = new_row(unit, CalibrationDraw((), ()), tmp_path, Workplace({}, "", ""))
        results.finish(unit, row, picture(number))
    measured = Measured(experiment, units, results.rows())
    shown = []
    grid = figures._grid
    monkeypatch.setattr(figures, "_grid", lambda rows, *words: shown.append(rows) or grid(rows, *words))
    pages = draw_figure(experiment.figures[0], measured, results, tmp_path / "figures")
    assert [page.name for page in pages] == ["maps-1", "maps-2"]
    assert "(page 2 of 2)" in pages[1].caption
    assert "lower median of the ground-truth areas, ties by ascending file name" in pages[0].caption
    (sides,) = draw_figure(experiment.figures[1], measured, results, tmp_path / "figures")
    missing = [pixels is None for rows in shown for row in rows for pixels in row]
    assert sum(missing) == 1 + 4, "its map among the hosts, its column of four among the sides"
    for page in (*pages, sides):
        with Image.open(page.png) as drawn:
            assert drawn.width > 100


def test_base_and_corrected_share_a_scale_and_hosts_do_not():
    taken = picture(0)
    base, corrected = figures._shared(taken)
    assert not np.array_equal(corrected, coloured(taken.image, taken.base, taken.base))
    alone = figures._alone(taken)
    assert np.array_equal(corrected, coloured(taken.image, taken.corrected, np.stack([taken.base, taken.corrected])))
    assert not np.array_equal(alone, corrected)
    assert base.shape == taken.image.shape
    flat = np.zeros((4, 4), np.float32)
    assert coloured(np.zeros((4, 4, 3), np.uint8), flat, flat).shape == (4, 4, 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "pie"}, "The figure 'f' must be one of curves, hosts, sides, overview, got 'pie'"),
        (
            {"kind": "sides", "dataset": "rad"},
            "The figure 'f' has no key 'dataset'; choose from name, kind, caption, host",
        ),
        ({"kind": "sides"}, "The figure 'f' of kind sides must give host, got name, kind"),
        ({"kind": "curves", "variants": [], "panels": [], "paper": "best"}, "names no table of the paper, got 'best'"),
    ],
)
def test_a_figure_that_cannot_be_drawn_is_refused(tmp_path, change, message):
    experiment, units, results = run_of(GRID, tmp_path)
    with pytest.raises(DataError, match=message):
        draw_figure({"name": "f", **change}, Measured(experiment, units, []), results, tmp_path)


OVERVIEW = """
name = "x"
title = "t"
[[units]]
datasets = ["rendered"]
hosts = ["patchcore"]
seeds = 1
pictures = true
[encoders]
"*" = "bundled"
[[figures]]
name = "overview"
kind = "overview"
caption = "Overview."
host = "patchcore"
category = "lights"
"""


def test_the_overview_shows_the_maps_of_one_image(tmp_path):
    experiment, units, results = run_of(OVERVIEW, tmp_path)
    measured = Measured(experiment, units, [])
    (empty,) = draw_figure(experiment.figures[0], measured, results, tmp_path / "empty")
    chosen = next(unit for unit in units if unit.category == "lights")
    for number in (1, 2):
        row = new_row(chosen, CalibrationDraw((), ()), tmp_path, Workplace({}, "", ""))
        results.finish(chosen, row, picture(number))
        (made,) = draw_figure(experiment.figures[0], measured, results, tmp_path / str(number))
        assert made.caption == "Overview. Real maps of one image, k = 8, on bundled."
        assert made.png.read_bytes() != empty.png.read_bytes()
    assert (tmp_path / "1" / "overview.png").read_bytes() != (tmp_path / "2" / "overview.png").read_bytes()
