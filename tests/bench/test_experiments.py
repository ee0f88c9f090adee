"""The experiments that come with the package: by name from anywhere, by path, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparcal.bench.experiments import experiment_datasets, experiment_source, experiment_titles
from sparcal.bench.plan.experiment import parse_experiment
from sparcal.cli import run
from sparcal.errors import DataError


def test_every_file_is_an_experiment_of_its_name():
    for name, title in experiment_titles().items():
        experiment = parse_experiment(experiment_source(name), name)
        assert experiment.name == name
        assert experiment.title.startswith(title)
        assert "{" not in title
        assert set(experiment_datasets()[name]) == set(experiment.datasets), name


def test_names_work_from_any_folder_and_win_over_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("main").write_text("mine")
    assert 'name = "main"' in experiment_source("main")
    assert experiment_source("./main") == "mine"


def test_what_is_not_there_is_refused(tmp_path):
    with pytest.raises(DataError, match="There is no experiment 'mian'; choose from alignment-contrast, .*, or give"):
        experiment_source("mian")
    with pytest.raises(DataError, match="x.toml must be a readable file, got No such file or directory: check"):
        experiment_source(str(tmp_path / "x.toml"))
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="got bytes that are not text"):
        experiment_source(str(tmp_path / "x.toml"))


def test_the_command_lists_them(capsys):
    assert run(["bench", "list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["name"]: row["title"] for row in rows} == experiment_titles()
    assert next(row["data"] for row in rows if row["name"] == "significance") == "mvtec-ad-2, aebad-s"
    assert run(["bench", "list"]) == 0
    assert "significance" in capsys.readouterr().out


def test_an_unknown_name_is_a_wrong_call(capsys):
    assert run(["bench", "run", "mian"]) == 2
    assert "There is no experiment 'mian'" in capsys.readouterr().err
