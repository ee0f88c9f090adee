"""`sparcal bench`: run, report and data from the command line, at tiny size."""

from __future__ import annotations

import csv
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sparcal.bench.experiments import experiment_source, experiment_titles
from sparcal.bench.plan.experiment import parse_experiment
from sparcal.bench.run import work
from sparcal.cli import run
from tests.support.tiny_bench import COUNTS, RESNET, VIT, tiny, tiny_experiment, write_trees
from tests.support.trees import spoil, write_tree

ALL = sorted(experiment_titles())
# Small ones that between them use every kind of table cell and figure; all files are run by the slow test.
QUICK = ("symmetric-use", "energy-decomposition", "qualitative-main", "calibration-source")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("bench")
    write_trees(made / "data")
    return made


@pytest.fixture(autouse=True)
def data(folder, monkeypatch):
    monkeypatch.setenv("SPARCAL_DATA", str(folder / "data"))


def small(folder, name="symmetric-use"):
    """Options for a run with tiny convolutional encoders."""
    options = ["--limit-categories", "1", "--limit-seeds", "2", "--weights", "random:0", "--encoder", RESNET]
    return [
        "bench",
        "run",
        name,
        *options,
        "--cache",
        str(folder / "cache"),
        "--threads",
        "1",
    ]


def tables(out):
    return {path.name: path.read_bytes() for path in sorted((out / "report" / "tables").iterdir())}


def check_report(out, capsys):
    assert run(["bench", "report", str(out)]) == 0
    capsys.readouterr()
    report = out / "report"
    text = (report / "report.md").read_text()
    assert "missing" not in text
    assert "failed." in text
    assert "0 failed." in text
    assert (report / "report.html").read_text().startswith("<!doctype html>")
    assert (report / "units.parquet").exists()
    for name in (report / "tables").glob("*.md") if (report / "tables").exists() else ():
        assert all(name.with_suffix(suffix).read_text() for suffix in (".tex", ".csv", ".html"))
    for name in (report / "figures").glob("*.png") if (report / "figures").exists() else ():
        assert name.read_bytes()[1:4] == b"PNG"
        assert name.with_suffix(".pdf").read_bytes()[:4] == b"%PDF"
    assert (report / "tables").exists() or (report / "figures").exists()


@pytest.mark.parametrize("name", QUICK)
def test_an_experiment_runs_end_to_end(folder, tmp_path, capsys, name):
    others = [word for host in ("anomalydino", "subspacead", "musc") for word in ("--encoder", f"{host}={VIT}")]
    assert run([*small(folder, name), "--workers", "1", "--out", str(tmp_path / name), *others]) == 0
    check_report(tmp_path / name, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in ALL if name != "demo"])
def test_every_experiment_runs_end_to_end(folder, tmp_path, capsys, name):
    """On trees of the real layouts, each host on a small encoder of its own family; what the rows used is in a table."""
    source = tiny_experiment(name, tmp_path)
    planned = parse_experiment(Path(source).read_text(), name)
    assert run(["bench", "run", source, "--out", str(tmp_path / name), *tiny(folder, name)]) == 0, (
        capsys.readouterr().err
    )
    check_report(tmp_path / name, capsys)
    with (tmp_path / name / "report" / "tables" / "used.csv").open() as stream:
        used = list(csv.DictReader(stream))
    blocks = {(host, dataset) for block in planned.units for host in block.hosts for dataset in block.datasets}
    done = {(line["Host"], line["Dataset"]) for line in used}
    assert done <= blocks
    assert {host for host, _ in done} == set(planned.hosts)
    for line in used:
        assert "weights=random-0" in line["Encoder"]
        assert (line["Detector"] == "None") is (line["Host"] == "features")
        if line["Host"] == "musc":
            assert ("neighbours=(1, 8, 9)" in line["Detector"]) is (line["Dataset"] == "visa")
    if name == "backbones":
        assert len({line["Encoder"] for line in used}) == 8, "eight encoders, not eight equal rows"
    if name == "winclip-modes":
        assert {line["Detector"].split("'")[1] for line in used} == {
            "patch_only",
            "winclip_plus",
            "winclip_plus_windows",
            "zero_shot",
        }


def test_results_are_refused_resumed_and_restarted(folder, tmp_path, capsys):
    call = [*small(folder), "--workers", "1", "--out", str(tmp_path / "r")]
    assert run([*call, "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert (first["units"], first["finished"], first["run"], first["failed"]) == (24, 24, 24, [])
    assert run(call) == 2
    assert "must be new, got one that holds results" in capsys.readouterr().err
    assert run([*call, "--resume", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["run"] == 0
    one = next((tmp_path / "r" / "units").glob("*.parquet"))
    one.unlink()
    assert run([*call, "--resume", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["run"] == 1
    assert run([*call, "--restart", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["run"] == 24
    other = [*small(folder, "main-aupro-0.05"), "--workers", "1", "--out", str(tmp_path / "s")]
    assert run([*call[:-1], str(tmp_path / "t"), "--reuse", str(tmp_path / "r"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["run"] == 0
    assert run([*other, "--reuse", str(tmp_path / "nowhere")]) == 2
    capsys.readouterr()


def test_a_run_that_is_cut_off_and_resumed_gives_the_same_tables(folder, tmp_path, capsys, monkeypatch):
    """The quick version of the SIGKILL test below: the run ends after 7 and again after 5 units."""
    call = [*small(folder), "--workers", "1", "--out"]
    assert run([*call, str(tmp_path / "whole")]) == 0
    right = work.RunFolder.finish
    for left in (7, 5, None):
        count = iter(range(left)) if left is not None else None

        def finish(self, unit, row, picture, count=count):
            if count is not None and next(count, None) is None:
                raise KeyboardInterrupt
            right(self, unit, row, picture)

        monkeypatch.setattr(work.RunFolder, "finish", finish)
        code = run([*call, str(tmp_path / "cut"), *(["--resume"] if left != 7 else [])])
        assert code == (0 if left is None else 130)
    for name in ("whole", "cut"):
        assert run(["bench", "report", str(tmp_path / name)]) == 0
    capsys.readouterr()
    assert tables(tmp_path / "whole") == tables(tmp_path / "cut")


@pytest.mark.slow
def test_a_run_killed_three_times_and_resumed_gives_the_same_tables(folder, tmp_path, record_property):
    """Every process of the run gets SIGKILL while units are running, three times, after a number drawn beforehand."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}

    def call(*words):
        return [sys.executable, "-c", "from sparcal.cli import main; main()", *words]

    def arguments(name):
        options = [*small(folder)[:-4], "--threads", "1", "--workers", "2", "--cache", str(tmp_path / f"cache-{name}")]
        return call(*options, "--out", str(tmp_path / name), *(["--resume"] if (tmp_path / name).exists() else []))

    def units(name):
        return len(list((tmp_path / name / "units").glob("*.parquet")))

    subprocess.run(arguments("whole"), env=environment, check=True, timeout=600)
    finished = []
    for first in (1, 8, 15):
        after = random.Random(first).randrange(first, first + 5)
        with subprocess.Popen(arguments("killed"), env=environment, start_new_session=True) as process:
            deadline = time.monotonic() + 300
            while units("killed") < after and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.002)
            os.killpg(process.pid, signal.SIGKILL)
        finished.append(units("killed"))
    assert finished == sorted(finished), "nothing finished is lost"
    assert finished[-1] < units("whole") == 24, "units were running at every kill"
    record_property("tried", len(finished))
    record_property("ended", f"{', '.join(map(str, finished))} of 24 units were finished at the kills")
    subprocess.run(arguments("killed"), env=environment, check=True, timeout=600)
    for name in ("whole", "killed"):
        subprocess.run(call("bench", "report", str(tmp_path / name)), env=environment, check=True, timeout=300)
    assert tables(tmp_path / "whole") == tables(tmp_path / "killed")
    assert b"missing" not in tables(tmp_path / "whole")["symmetric-use.csv"]


def test_failures_are_collected_and_end_with_1(folder, tmp_path, capsys):
    write_tree("rad", tmp_path / "rad", per_split=COUNTS, categories=("bolt",))
    bad = spoil(tmp_path / "rad" / "bolt" / "train" / "good" / "003.png")
    call = [*small(folder), "--workers", "1", "--out", str(tmp_path / "r"), "--data", f"rad={tmp_path / 'rad'}"]
    assert run(call) == 1
    said = capsys.readouterr().err
    assert f"Failed: rad bolt patchcore sparc on=both k=8 seed=0: {bad}" in said
    assert "18 of 24 units are finished" in said
    assert "6 failed" in said
    assert run(["bench", "report", str(tmp_path / "r"), "--format", "csv"]) == 0
    captured = capsys.readouterr()
    assert "missing" in captured.out
    assert "6 failed" in captured.err
    assert run(["bench", "report", str(tmp_path / "r"), "--json"]) == 0
    cells = json.loads(capsys.readouterr().out)["cells"]
    gone = [cell for cell in cells if cell["dataset"] == "rad"]
    assert gone
    assert all(cell["value"] is None and cell["missing"] and cell["text"] == "missing" for cell in gone)
    assert all(cell["value"] is not None for cell in cells if cell["dataset"] != "rad")


@pytest.mark.parametrize("form", ["md", "latex", "csv", "html"])
def test_a_report_is_printed_in_each_format(folder, tmp_path, capsys, form):
    out = str(tmp_path / "r")
    assert run([*small(folder, "energy-decomposition"), "--workers", "1", "--out", out]) == 0
    capsys.readouterr()
    assert run(["bench", "report", out, "--format", form, "--out", str(tmp_path / "elsewhere")]) == 0
    text = capsys.readouterr().out
    assert {"md": "| Dataset |", "latex": r"\toprule", "csv": "Dataset,", "html": "<table id="}[form] in text
    assert "43.77" in text, "the paper's number stands beside"
    assert (tmp_path / "elsewhere" / "report.html").exists()


def test_notes_say_what_is_undefined_and_what_the_call_changed(folder, tmp_path, capsys):
    out = str(tmp_path / "r")
    text = experiment_source("cross-scene")
    hosts = text[text.index("hosts = ") : text.index("corrections")]
    (tmp_path / "x.toml").write_text(text.replace(hosts, 'hosts = ["patchcore", "padim"]\n'))
    call = small(folder)
    call[2] = str(tmp_path / "x.toml")
    call[call.index("--limit-seeds") + 1] = "5"
    tree = write_tree("mvtec-ad-2", tmp_path / "two", per_split=COUNTS, categories=("can",), lightings=6)
    call += ["--data", f"mvtec-ad-2={tree}"]  # two scenes of six captures: a draw of 8 can spare neither
    assert run([*call, "--workers", "1", "--out", out]) == 0
    assert run(["bench", "report", out]) == 0
    text = capsys.readouterr().out
    assert "This run was changed by its call: only the first 1 categories, only the first 5 seeds" in text
    assert "Undefined, in no average: mvtec-ad-2 can patchcore sparc scene-disjoint k=8 seed=" in text
    assert "the draw leaves no normal image to evaluate." in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--engine", "spark"], "There is no engine 'spark'; choose from local, ray"),
        (["--resume", "--restart"], "Choose --resume or --restart, got both"),
        (["--precision", "float8"], "The cache stores|There is no precision 'float8'"),
        (["--data", "rad"], "--data takes NAME=PATH, got 'rad'"),
        (["--device", "abacus"], "There is no device 'abacus'; choose from"),
    ],
)
def test_a_wrong_call_ends_with_2(folder, tmp_path, capsys, words, message):
    assert run([*small(folder), "--out", str(tmp_path / "r"), *words]) == 2
    assert re.search(message, capsys.readouterr().err)
    assert not (tmp_path / "r").exists()


def test_without_the_extra_a_run_ends_before_it_begins(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert run([*small(folder), "--out", str(tmp_path / "r")]) == 1
    said = capsys.readouterr().err
    assert said.endswith("run pip install 'sparcal[bench]'.\n")
    assert said.count("\n") == 1
    assert not (tmp_path / "r").exists()


def test_the_list_of_experiments_says_how_to_go_on(capsys):
    assert run(["bench", "list"]) == 0
    assert "Run one with sparcal bench run NAME" in capsys.readouterr().out


def test_a_report_of_nothing_ends_with_2(tmp_path, capsys):
    assert run(["bench", "report", str(tmp_path)]) == 2
    assert "must be a results folder of sparcal bench run" in capsys.readouterr().err
    assert run(["bench", "report", str(tmp_path), "--format", "pdf"]) == 2
    assert "There is no format 'pdf'; choose from md, latex, csv, html" in capsys.readouterr().err


def test_a_copy_is_checked(folder, tmp_path, capsys):
    assert run(["bench", "data", "rad", str(folder / "data" / "rad")]) == 1
    captured = capsys.readouterr()
    assert "9 of 213" in captured.out
    assert "The copy is not complete" in captured.out
    write_tree("folder", tmp_path / "own", per_split=COUNTS)
    assert run(["bench", "data", "folder", str(tmp_path / "own"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True
    assert run(["bench", "data", "raad", str(tmp_path)]) == 2
    assert run(["bench", "data", "rad", str(tmp_path / "nowhere")]) == 2
    capsys.readouterr()
