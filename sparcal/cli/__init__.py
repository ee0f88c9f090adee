"""The command line: thin. Each command parses, calls the library, and prints.

Exit codes: 0 done, 1 the work failed, 2 the call was wrong, 130 Ctrl-C. Errors are one sentence on standard error;
`--debug`, anywhere in the call, shows the traceback instead.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated

import typer
from typer.exceptions import TyperException

from sparcal.cli.console import CallError, say, spoken_warnings
from sparcal.cli.help import explain_plainly
from sparcal.cli.stopping import CTRL_C, Stop, leave, stoppable
from sparcal.errors import EncoderNameError, PlaceError, SparcalError

# One module per command or group of commands, imported to read its signature; heavy imports wait for the call.
_COMMANDS = (
    *("fit", "calibrate", "score", "self_test", "lots", "compare", "demo", "parts", "serve", "export", "listing"),
    "bench",
)

app = typer.Typer(
    name="sparcal",
    epilog="--debug, anywhere in a call, shows the traceback of an error. --json, with any command, prints for machines.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for _name in _COMMANDS:
    import_module(f"sparcal.cli.{_name}").register(app)
explain_plainly(app)


def _tell_version(asked: bool) -> None:
    if asked:
        from sparcal import __version__

        typer.echo(f"sparcal {__version__}")
        raise typer.Exit


@app.callback()
def describe(
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Recalibrate a frozen visual anomaly detector to an incoming lot, from a few images known to be good."""


def main(arguments: Sequence[str] | None = None, *, commands: typer.Typer = app) -> None:
    """Run one command and leave with its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a letter that a terminal lacks is shown as \xfc, and stops nothing
            stream.reconfigure(errors="backslashreplace")
    debug = "--debug" in words or bool(os.environ.get("SPARCAL_DEBUG"))
    leave(run([word for word in words if word != "--debug"], debug=debug, commands=commands))


def run(arguments: Sequence[str], *, debug: bool = False, commands: typer.Typer = app) -> int:
    """The exit code of one command; every error has become one sentence, unless `debug`."""
    with stoppable() as stop:
        try:
            with spoken_warnings():
                _require_working_folder()
                _require_no_blank(arguments)
                result = commands(list(arguments) or ["--help"], prog_name=commands.info.name, standalone_mode=False)
        except TyperException as error:
            return _refuse(error.format_message())
        except SystemExit as leaving:  # shell completion ends so, and whatever prints to a reader that has gone
            return int(leaving.code or 0)
        except KeyboardInterrupt:
            return _stopped(stop)
        except Exception as error:
            if stop.number is not None:  # whatever the work made of it: imports, for one, turn it into an ImportError
                return _stopped(stop)
            if debug:
                raise
            say(f"Error: {sentence(error)}")
            return 2 if isinstance(error, CallError | EncoderNameError | PlaceError) else 1
        if stop.number is not None and result == CTRL_C:  # what Typer makes of it
            return _stopped(stop)
    return result if isinstance(result, int) else 0


def _require_working_folder() -> None:
    """Refuse to start in a folder that is gone: libraries below torch abort the process there, without a sentence."""
    try:
        os.getcwd()
    except FileNotFoundError as error:
        raise CallError("A command needs a folder to work in, got one that was removed: change to another.") from error


def _require_no_blank(arguments: Sequence[str]) -> None:
    """Refuse what a shell makes of a variable that is not set: as a path it would mean the folder that one is in."""
    for before, word in zip(["", *arguments], arguments, strict=False):
        if word == "" or re.fullmatch(r"--[\w-]+=", word):
            option = before if word == "" and before.startswith("--") else word.removesuffix("=")
            name = option or "an argument"
            raise CallError(f"The value of {name} must not be empty, got nothing: give one, or leave it out.")


def _stopped(stop: Stop) -> int:
    say("Stopped.")
    return stop.code


def _refuse(message: str) -> int:
    if message.startswith("Usage:"):  # a group of commands without one of them: what it offers
        for line in message.splitlines():
            say(line)
    else:
        say(f"Error: {' '.join(message.split())}")
    return 2


def sentence(error: Exception) -> str:
    """What went wrong, for a person."""
    if isinstance(error, SparcalError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        where = f" ({error.filename})" if error.filename else ""
        return f"The system refused: {error.strerror}{where}."
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):  # the second is torch's
        return _little_memory(error)
    reason = str(error).strip().split("\n")[0] or "no reason given"
    return f"Something unexpected happened ({type(error).__name__}: {reason}): run again with --debug to see where."


def _little_memory(error: Exception) -> str:
    from sparcal.files.amounts import amount
    from sparcal.memory import available_bytes

    asked = re.search(r"allocate (\d+) bytes", str(error))
    needs = f"{amount(int(asked.group(1)))} more memory at once" if asked else "more memory"
    free = available_bytes()
    got = "less" if free is None else f"{amount(free)} free"
    return f"The work needs {needs}, got {got}: close other programs, give it fewer images, or use a larger machine."
