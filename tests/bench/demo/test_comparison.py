"""The demonstration: paired rows, the promise that SPARC beats base, and a page that stands alone."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from typing import get_args

import numpy as np
import pytest

from sparcal.bench.demo.comparison import BASE, COMPARED, CONTRASTED, Plan, draw, run_demonstration, summarise
from sparcal.bench.demo.page import SHIFTS, write_demo_page
from sparcal.bench.metrics import METRICS
from sparcal.cli import run
from sparcal.errors import DataError
from sparcal.rendering.parts import Shift

SMALL = Plan(seeds=2, train=10, good=12, bad=12, corrections=CONTRASTED, ks=(2, 4))


@pytest.fixture(scope="module")
def result():
    return run_demonstration(SMALL, workers=1)


def test_rows_are_complete_and_paired(result):
    assert len(result.rows) == 2 * 2 * 2 * len(CONTRASTED)
    expected = {"detector", "correction", "k", "seed", "image_auroc", "aupro_0.3", "aupro_0.05"}
    for row in result.rows:
        assert set(row) == expected
        assert all(0 <= row[name] <= 100 for name in METRICS)


def test_same_plan_same_rows_also_with_workers(result):
    one_seed = Plan(seeds=1, train=10, good=12, bad=12, corrections=CONTRASTED, ks=(2, 4))
    assert run_demonstration(one_seed, workers=2).rows == [row for row in result.rows if row["seed"] == 0]


def test_ctrl_c_waits_for_no_seed():
    reports = []

    def press(done, _total):
        reports.append(done)
        if len(reports) == 1:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)  # the main thread hears of it

    with pytest.raises(KeyboardInterrupt):
        run_demonstration(SMALL, workers=2, progress=press)
    assert len(reports) <= 3, "of 16 rows"


def test_draws_are_disjoint_and_depend_on_numbers_alone():
    for seed in range(3):
        calibration, held_out = draw(12, 4, seed)
        assert sorted(calibration + held_out) == list(range(12))
        assert (calibration, held_out) == draw(12, 4, seed)
    assert draw(12, 4, 0) != draw(12, 4, 1)


def test_summary_averages_and_pairs(result):
    table = summarise(result.rows)
    chosen = next(r for r in table if (r["detector"], r["k"], r["correction"]) == ("padim", 4, "sparc"))
    mine = [r for r in result.rows if (r["detector"], r["k"], r["correction"]) == ("padim", 4, "sparc")]
    base = [r for r in result.rows if (r["detector"], r["k"], r["correction"]) == ("padim", 4, BASE)]
    assert chosen["aupro_0.3"] == pytest.approx(np.mean([r["aupro_0.3"] for r in mine]))
    change = np.mean([a["aupro_0.3"] - b["aupro_0.3"] for a, b in zip(mine, base, strict=True)])
    assert chosen["change of aupro_0.3"] == pytest.approx(change)


def test_every_shift_can_be_told_on_the_page():
    assert set(SHIFTS) == set(get_args(Shift))


def test_the_page_stands_alone(result, tmp_path):
    page = write_demo_page(result, result, tmp_path, command="sparcal demo").read_text()
    assert not re.search(r"""(src|href)=["'](?!data:)""", page)
    assert "http" not in page.replace("http://www.w3.org", "")
    assert page.count("<img") == 6 + len(result.shown) * (1 + len(CONTRASTED))
    assert all(re.search(r"alt='[^']+'", tag) for tag in re.findall(r"<img[^>]*>", page))
    assert "$" not in page.split("</style>")[1]
    assert (tmp_path / "before_after.jpg").stat().st_size > 10_000


def test_the_first_part_of_each_kind_is_shown(result):
    kinds = [shown.part.defect for shown in result.shown]
    assert kinds[0] is None
    assert len(set(kinds)) == len(kinds)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ks": (9,)}, "takes k of 2 to 8, got 9"),
        ({"ks": ()}, "takes k of 2 to 8, got none"),
        ({"shift": "up"}, "The shift must be one of lights"),
        ({"seeds": 0}, "Plan.seeds must be a whole number of at least 1, got 0"),
    ],
)
def test_plans_that_make_no_sense(change, message):
    with pytest.raises(DataError, match=message):
        Plan(**change)


@pytest.mark.slow
def test_sparc_beats_base_on_au_pro_for_both_hosts(tmp_path, capsys):
    """The whole command, as the README runs it."""
    assert run(["demo", "--json", "--out", str(tmp_path)]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["correction"] for row in rows} == set(COMPARED)
    assert {row["seed"] for row in rows} == set(range(5))
    for detector in ("patchcore", "padim"):
        mean = {
            name: np.mean([r["aupro_0.3"] for r in rows if (r["detector"], r["correction"]) == (detector, name)])
            for name in COMPARED
        }
        assert mean["sparc"] > mean[BASE]
        assert mean["sparc-recentred"] > mean[BASE]
