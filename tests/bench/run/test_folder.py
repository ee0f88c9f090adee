"""The results folder: what is finished stays, what is refused is said, other runs' units are taken over."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from sparcal.bench.plan.protocol import CalibrationDraw
from sparcal.bench.plan.unit import Unit
from sparcal.bench.run.folder import open_results, start_results
from sparcal.bench.run.pictures import ExamplePicture, read_picture
from sparcal.bench.run.row import new_row
from sparcal.bench.run.workplace import Workplace
from sparcal.errors import ArtifactError, DataError

TOML = 'name = "x"\ntitle = "t"\n[[units]]\ndatasets = ["rad"]\nhosts = ["padim"]\n'
UNITS = [Unit("rad", "bolt", "padim", "sparc", 8, seed) for seed in range(3)]


def row(unit, tmp_path):
    return new_row(unit, CalibrationDraw((), ()), tmp_path, Workplace({}, "", ""))


def picture():
    random = np.random.default_rng(0)
    heat = random.random((2, 6, 8)).astype(np.float32)
    return ExamplePicture("a.png", random.integers(0, 255, (6, 8, 3), dtype=np.uint8), heat[0] > 0.5, heat[0], heat[1])


def test_finished_units_come_back_in_the_order_of_the_plan(tmp_path):
    results = start_results(tmp_path / "r", TOML, UNITS, overrides="only one")
    for unit in (UNITS[2], UNITS[0]):
        results.finish(unit, row(unit, tmp_path), None)
    again = open_results(tmp_path / "r")
    assert again.plan() == (UNITS, "only one")
    assert again.experiment.name == "x"
    assert [found["seed"] for found in again.rows()] == [0, 2]
    assert [again.is_finished(unit) for unit in UNITS] == [True, False, True]


def test_a_unit_is_finished_when_its_picture_is_there_too(tmp_path):
    unit = replace(UNITS[0], picture=True)
    results = start_results(tmp_path / "r", TOML, [unit])
    results.finish(UNITS[0], row(UNITS[0], tmp_path), None)
    assert not results.is_finished(unit)
    taken = picture()
    results.finish(unit, row(unit, tmp_path), taken)
    assert results.is_finished(unit)
    found = read_picture(results.picture(unit))
    assert found.name == "a.png"
    for name in ("image", "mask", "base", "corrected"):
        assert np.array_equal(getattr(found, name), getattr(taken, name))
    results.picture(unit).write_bytes(b"half")
    with pytest.raises(ArtifactError, match="cannot be read .*: run its unit again"):
        read_picture(results.picture(unit))


def test_an_old_folder_is_refused_resumed_or_restarted(tmp_path):
    results = start_results(tmp_path / "r", TOML, UNITS)
    results.finish(UNITS[0], row(UNITS[0], tmp_path), None)
    with pytest.raises(DataError, match="must be new, got one that holds results: go on with --resume, begin again"):
        start_results(tmp_path / "r", TOML, UNITS)
    assert start_results(tmp_path / "r", TOML, UNITS, mode="resume").is_finished(UNITS[0])
    assert not start_results(tmp_path / "r", TOML, UNITS, mode="restart").is_finished(UNITS[0])


def test_a_folder_of_something_else_is_never_touched(tmp_path):
    (tmp_path / "r" / "units").mkdir(parents=True)
    for mode in ("new", "resume", "restart"):
        with pytest.raises(DataError, match="must be new or of an earlier run, got something else"):
            start_results(tmp_path / "r", TOML, UNITS, mode=mode)
    assert (tmp_path / "r" / "units").exists()
    with pytest.raises(DataError, match="must be a results folder of sparcal bench run, got none there"):
        open_results(tmp_path / "r")


def test_a_failure_is_kept_until_the_unit_succeeds(tmp_path):
    results = start_results(tmp_path / "r", TOML, UNITS)
    results.fail(UNITS[1], "It did not work.", "Traceback ...")
    assert results.failures() == {UNITS[1].hash: "It did not work."}
    results.finish(UNITS[1], row(UNITS[1], tmp_path), None)
    assert results.failures() == {}


def test_a_killed_writer_leaves_no_row(tmp_path):
    results = start_results(tmp_path / "r", TOML, UNITS)
    results.finish(UNITS[0], row(UNITS[0], tmp_path), None)
    whole = next((tmp_path / "r" / "units").glob("*.parquet"))
    (whole.parent / f".{UNITS[1].hash}.parquet.k1lled.tmp").write_bytes(whole.read_bytes()[:500])
    assert len(results.rows()) == 1
    assert not results.is_finished(UNITS[1])


def test_what_a_killed_run_was_writing_is_swept_when_it_goes_on(tmp_path):
    start_results(tmp_path / "r", TOML, UNITS).finish(UNITS[0], row(UNITS[0], tmp_path), None)
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    left = [
        tmp_path / "r" / name / f".x.abcd_123.{ended.pid}.tmp" for name in ("", "units", "pictures", "report/tables")
    ]
    for path in left:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"half")
    assert start_results(tmp_path / "r", TOML, UNITS, mode="resume").is_finished(UNITS[0])
    assert not [path for path in left if path.exists()]


def test_units_of_another_run_are_taken_over(tmp_path):
    unit = replace(UNITS[0], picture=True)
    first = start_results(tmp_path / "a", TOML, [unit])
    second = start_results(tmp_path / "b", TOML, [unit, UNITS[1]])
    assert not second.adopt(first, unit)
    first.finish(unit, row(unit, tmp_path), picture())
    assert second.adopt(first, unit)
    assert second.is_finished(unit)
    assert not second.adopt(first, UNITS[1])


def test_a_plan_of_another_format_is_refused(tmp_path):
    results = start_results(tmp_path / "r", TOML, UNITS)
    (results.path / "plan.json").write_text('{"format": 99}')
    with pytest.raises(ArtifactError, match="has format 99, this sparcal reads 1"):
        results.plan()
