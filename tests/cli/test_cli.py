"""The command line: exit codes, one sentence per error, JSON for machines, and a quick --help."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from sparcal.cli import run, sentence
from sparcal.hosts import HOSTS


def test_hosts_as_json(capsys):
    assert run(["hosts", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == list(HOSTS)
    assert set(rows[0]) == {"name", "encoder", "detector", "family"}


@pytest.mark.parametrize("command", ["hosts", "encoders", "detectors", "corrections"])
def test_listings_for_people(command, capsys):
    assert run([command]) == 0
    assert "name" in capsys.readouterr().out


def test_corrections_are_told_apart_in_words(capsys):
    assert run(["corrections", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len({row["title"] for row in rows}) == len(rows)
    told = [(row["removes"], row["what"]) for row in rows]
    assert len(set(told)) == len(told), "two that do not do the same are not told in the same words"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nothing"], 2, "No such command 'nothing'"),
        (["hosts", "--jsn"], 2, "No such option: --jsn"),
        (
            ["demo", "--shift", "sideways"],
            2,
            "The shift must be one of lights, random, none, moved, lights+moved, got 'sideways'.",
        ),
        (["demo", "--k", "1"], 2, "The demonstration takes k of 2 to 8, got 1."),
        (["demo", "--out", __file__], 2, "The demonstration needs a folder, got the file"),
    ],
)
def test_errors_are_one_sentence_with_the_right_code(arguments, code, message, capsys):
    assert run(arguments) == code
    said = capsys.readouterr().err
    assert said.startswith("Error: ")
    assert message in said
    assert said.count("\n") == 1


def test_unexpected_errors_become_a_sentence_too():
    assert (
        sentence(RuntimeError("a\nb"))
        == "Something unexpected happened (RuntimeError: a): run again with --debug to see where."
    )
    assert (
        sentence(OSError(28, "No space left on device", "x/y")) == "The system refused: No space left on device (x/y)."
    )


@pytest.mark.parametrize(
    ("error", "needs"),
    [
        (MemoryError(), "The work needs more memory, got "),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1200000000 bytes."),
            "1.2 GB more",
        ),
    ],
)
def test_too_little_memory_is_said_in_numbers(error, needs):
    assert needs in sentence(error)
    assert re.search(r"got \S+ [kMGT]B free: close other programs", sentence(error))


def test_importing_sparcal_and_its_command_line_loads_nothing_heavy():
    code = "import sys, sparcal, sparcal.cli; print([m for m in ('torch', 'numpy', 'timm', 'scipy', 'cv2') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
