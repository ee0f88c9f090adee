"""What the benchmarks rest on: how a side is measured, when a goal counts as met, and what the page says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from speed.__main__ import NAMES
from speed.growth import Curve
from speed.measure import ROOT, Cost, Goal, Row, cores, fastest, measure, measure_command
from speed.page import PICTURE, replace_file, write_page, write_section
from tests.support import measured_sides


@pytest.fixture(autouse=True)
def sides_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(measured_sides.__file__).parent))


def row(measured: float, *, agree: bool = True, at_most: bool = False) -> Row:
    goal = Goal(10, "less time", at_most=at_most)
    return Row("fit", "peer", Cost(1.0, 2.0, 3.0, 5), Cost(9.0, 9.0), measured, goal, agree, "equal", short="Limit.")


@pytest.mark.parametrize(
    ("measured", "at_most", "agree", "met"),
    [(10, False, True, True), (9.9, False, True, False), (9.9, True, True, True), (99, False, False, False)],
)
def test_a_goal_is_met_only_if_outputs_agree(measured: float, at_most: bool, agree: bool, met: bool) -> None:
    assert row(measured, agree=agree, at_most=at_most).met is met


def test_a_side_is_measured_in_a_process_of_its_own() -> None:
    cost, outcome = measure(measured_sides.fills, 60, repeats=2)
    assert outcome.tolist() == [1, 1, 1]
    assert cost.runs == 2
    assert cost.cpu_s <= cost.wall_s + 0.1
    if cost.extra_mb is not None:
        assert cost.extra_mb == pytest.approx(60, abs=15)


def test_threads_are_those_stated() -> None:
    assert int(measure(measured_sides.threads, threads=2, repeats=1)[1]) == 2


def test_slow_sides_are_run_less_often_and_then_stopped() -> None:
    assert measure(measured_sides.sleeps, 0.2, repeats=100, limit=6)[0].runs < 30
    with pytest.raises(TimeoutError, match=r"sleeps\(60,\) did not finish in 2 s"):
        measure(measured_sides.sleeps, 60, limit=2)


def test_a_broken_side_says_why() -> None:
    with pytest.raises(RuntimeError, match="measured_sides.breaks.* failed: .*the side is broken"):
        measure(measured_sides.breaks)


def test_commands_are_measured_whole() -> None:
    cost, printed = measure_command([sys.executable, "-c", "print(sum(range(10)))"], repeats=2)
    assert printed == "45\n"
    assert 0 < cost.cpu_s < 5


def test_exponents() -> None:
    costs = tuple(Cost(3e-6 * n**1.5, 1.0, 0.01 * n) for n in (50, 100, 200))
    curve = Curve("step", "training images", (50, 100, 200), costs)
    assert curve.exponent == pytest.approx(1.5)
    assert curve.memory_exponent == pytest.approx(1.0)


def test_the_page_names_what_falls_short(tmp_path: Path) -> None:
    curve = Curve("score", "lot size", (1, 2), (Cost(1.0, 1.0, 1.0), Cost(2.0, 2.0, 2.0)))
    write_page(tmp_path / "speed.md", [row(20), row(3)], ["aupro: no anomalib"], [curve], 1.0)
    text = (tmp_path / "speed.md").read_text()
    assert "1 of 2 goals met" in text
    assert "3x for >= 10x less time. Limit." in text
    assert "Did not run: aupro: no anomalib" in text
    assert text.count("SHORT") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [PICTURE, "speed.md"]
    assert (tmp_path / PICTURE).stat().st_size < 200_000


def test_longer_runs_stay_on_the_page_until_they_are_made_again(tmp_path: Path) -> None:
    page = tmp_path / "speed.md"
    write_page(page, [row(20)], [], [], 1.0)
    curve = Curve("score", "lot size", (1, 2), (Cost(1.0, 1.0, 1.0), Cost(2.0, 2.0, 2.0)))
    write_section(page, "lot export", [row(3)], ["cache: broke"], [], 1.0)
    write_section(page, "growth", [], [], [curve], 1.0)
    write_section(page, "lot export", [row(30)], [], [], 1.0)
    write_page(page, [row(21)], [], [], 1.0)
    text = page.read_text()
    first, second, third = text.split("## `python -m speed ")
    assert "21x" in first
    assert second.startswith("lot export`\n")
    assert "30x" in second
    assert "cache: broke" not in text
    assert third.startswith("growth`\n")
    assert "| score | lot size | 1 - 2 |" in third


def test_each_side_has_its_better_number_of_threads() -> None:
    found = fastest(measured_sides.threads, repeats=1)
    assert int(found.outcome) == found.threads in (1, cores())
    assert found.cost.runs == found.alone.runs == 1
    assert found.cost.wall_s <= found.alone.wall_s
    assert (found.cost is found.alone) == (found.threads == 1)


def test_a_page_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    old = tmp_path / "speed.md"
    old.write_text("old")

    def fail(target: Path) -> None:
        target.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        replace_file(old, fail)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("speed.md", "old")]


def test_unknown_names_are_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "speed", "sparcc"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert f"there is no benchmark sparcc; choose from {', '.join(NAMES)}" in done.stderr.replace("\n", " ")
