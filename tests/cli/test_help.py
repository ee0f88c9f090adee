"""A newcomer's first minute: help in plain words at 80 columns, the version, and nothing heavy loaded for trivial answers."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import sparcal
from sparcal.cli import run

COMMANDS = ["fit", "calibrate", "score", "test", "lots", "show", "compare", "demo", "serve", "export"]
GROUPED = ["list", "run", "report", "data", "fidelity"]


@pytest.mark.parametrize("words", [[], *([name] for name in COMMANDS), *(["bench", name] for name in GROUPED)])
def test_help_speaks_of_names_and_numbers(words, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    assert run([*words, "--help"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"Usage: {' '.join(['sparcal', *words])} ")
    assert not re.search(r"[{}<>]", re.sub(r"x[<>]=?[\d.]+(<=\d+)?|\d<=x<=\d+", "", said)), said
    assert max(len(line) for line in said.splitlines()) <= 80
    listed = said.partition("Commands:")[2]
    assert "..." not in listed, "a command's first sentence fits into its line"


def test_arguments_are_called_the_same_in_help_and_complaints(capsys):
    assert run(["score", "--help"]) == 0
    said = capsys.readouterr().out
    assert "Usage: sparcal score [OPTIONS] STATION IMAGES...\n" in said
    assert "  IMAGES   Images, folders or patterns.\n" in said
    assert "--idle NUMBER" in said
    assert "--out PATH" in said
    assert run(["score"]) == 2
    assert capsys.readouterr().err == "Error: Missing argument 'STATION'.\n"


def test_a_group_without_a_command_shows_what_it_offers(capsys):
    assert run(["bench"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("Usage: sparcal bench")
    assert "Run an experiment." in said


def test_the_version(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"sparcal {sparcal.__version__}\n"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--version"], 0),
        (["show", "{station}"], 0),
        (["show", "{station}", "--json"], 0),
        (["compare", "{station}", "L1"], 0),
        (["lots", "{station}"], 0),
        (["show", "{station}", "--threshold=nan"], 2),
        (["show", "{station}", "--lot", "nope"], 2),
        (["score", "{station}", "{nowhere}"], 2),
        (["score", "{station}", "{lot}", "--lot", "nope"], 2),
        (["score", "{nowhere}", "{lot}"], 2),
        (["score", "{station}", "{lot}", "--engine", "cloud"], 2),
        (["test", "{station}", "--lot", "nope"], 2),
        (["export", "{station}", "--lot", "nope"], 2),
        (["calibrate", "{station}", "{nowhere}", "--lot", "x"], 2),
        (["calibrate", "{station}", "{normals}", "--lot", "x", "--k", "7"], 2),
        (["fit", "{nowhere}", "--station", "{nowhere}"], 2),
    ],
)
def test_trivial_answers_load_no_torch(calibrated_line, words, code):
    places = {name: str(calibrated_line / name) for name in ("station", "normals", "lot", "nowhere")}
    said = [word.format(**places) for word in words]
    program = f"import sys; from sparcal.cli import run; code = run({said!r}); sys.exit(99 if 'torch' in sys.modules else code)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert code == 0 or done.stderr.startswith("Error: ")
    assert code == 0 or done.stderr.count("\n") == 1
