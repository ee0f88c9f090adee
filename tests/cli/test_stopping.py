"""Ctrl-C, SIGTERM, SIGHUP: a command ends with a sentence or none, the right code, and nothing left behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest
import typer

from sparcal.cli import run
from sparcal.cli.stopping import leave, stoppable

app = typer.Typer(name="tool")


@app.command()
def wait(number: int) -> None:
    signal.raise_signal(number)


@app.command()
def load() -> None:
    """As imports do that are cut short."""
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        raise ImportError("cannot import name 'multiarray'") from None


@app.command()
def watch() -> None:
    """As what goes on until it is interrupted, and has its own code then."""
    try:
        signal.raise_signal(signal.SIGTERM)
    except KeyboardInterrupt:
        raise typer.Exit(1) from None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_each_signal_ends_the_work_with_its_code(number, capsys):
    before = signal.getsignal(number)
    assert run(["wait", str(int(number))], commands=app) == 128 + number
    assert capsys.readouterr() == ("", "Stopped.\n")
    assert signal.getsignal(number) is before


def test_what_the_work_makes_of_it_is_no_error(capsys):
    assert run(["load"], commands=app) == 130
    assert run(["load"], debug=True, commands=app) == 130
    assert capsys.readouterr().err == "Stopped.\nStopped.\n"


def test_a_command_may_have_a_code_of_its_own(capsys):
    assert run(["watch"], commands=app) == 1
    assert capsys.readouterr().err == ""


def test_what_the_caller_ignores_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        assert run(["wait", str(int(signal.SIGHUP))], commands=app) == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_other_threads_leave_signals_alone():
    codes = []

    def work():
        with stoppable() as stop:
            codes.append(stop.number)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert codes == [None]


def test_leaving_with_a_code():
    for code in (0, 1, 2, 130):
        with pytest.raises(SystemExit) as leaving:
            leave(code)
        assert leaving.value.code == code


WRITER = """
import sys, time, typer
from pathlib import Path
from sparcal.cli import main
from sparcal.files.atomic import atomic_path
app = typer.Typer(name="tool")
@app.command()
def write(folder: Path):
    with atomic_path(folder / "table.csv") as temporary:
        temporary.write_text("half")
        print("writing", flush=True)
        time.sleep(60)
main(commands=app)
"""


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGHUP, -signal.SIGHUP)]
)
def test_what_was_being_written_is_put_away(tmp_path, number, code):
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "writing\n"
        assert len(list(tmp_path.iterdir())) == 1
        process.send_signal(number)
        _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (code, "Stopped.\n")
    assert list(tmp_path.iterdir()) == []


HASTY = """
import signal, sys
class Finger:
    def find_spec(self, name, *_):
        if name == "{module}":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Finger())
from sparcal.__main__ import {entry}
sys.argv[1:] = ["lots", "nowhere"]
{entry}()
"""


@pytest.mark.parametrize(
    ("entry", "module"),
    [
        ("main", "sparcal.cli"),
        ("main", "typer"),
        ("main", "sparcal.cli.bench"),
        ("main", "sparcal.station.folder"),
        ("line", "typer"),
        ("line", "sparcal.export.exported_lot"),
    ],
)
def test_ctrl_c_while_modules_are_loaded_shows_no_traceback(entry, module):
    command = [sys.executable, "-c", HASTY.format(module=module, entry=entry)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in (130, -signal.SIGINT), "which a shell shows as 130 both"
    assert done.stderr in ("", "Stopped.\n")
