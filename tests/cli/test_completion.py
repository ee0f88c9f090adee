"""Tab completion: the shell's script, commands, and the lots of the station that a call names."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from sparcal.cli import run


def offered(line):
    """What the shell would offer for a line that ends where the cursor stands."""
    environment = {
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split(" ")) - 1),
        "_SPARCAL_COMPLETE": "complete_bash",
    }
    program = "from sparcal.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell(shell, monkeypatch, capsys):
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    program = f"from sparcal.cli import run; run(['--show-completion', {shell!r}])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "_SPARCAL_COMPLETE" in done.stdout
    assert run(["--help"]) == 0
    assert "--install-completion" in capsys.readouterr().out


def test_commands_and_options():
    assert offered("sparcal ca") == ["calibrate"]
    assert "--watch" in offered("sparcal score --wa")


def test_lots_of_the_station(calibrated_line, tmp_path):
    station = calibrated_line / "station"
    assert offered(f"sparcal show {station} --lot ") == ["L1"]
    assert offered(f"sparcal compare {station} L") == ["L1"]
    assert offered(f"sparcal score {station} x --lot Z") == []
    assert offered(f"sparcal show {tmp_path} --lot ") == []
