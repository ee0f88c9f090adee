"""What every command shares: tables and progress for people, JSON for machines, one sentence for errors."""

from __future__ import annotations

import json
import math
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Literal

import typer

from sparcal.errors import ArtifactError, BusyError, FullDiskError, NoStationError, SparcalError
from sparcal.files.names import json_text, visible
from sparcal.progress import Progress, unwatched
from sparcal.threads import core_count

if TYPE_CHECKING:
    from rich.text import Text

_MOMENT = re.compile(r"^(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(:\d\d)?[.\d]*\+00:00$")  # UTC, to the minute
STEPS_WITH_A_RATE = 10  # fewer are not alike, and a rate would say nothing
NARROWEST = 12  # characters that a column's title gets at least, if it has so many
_COLOURS = {
    "fail": "bold red",
    "stop": "bold red",
    "error": "bold yellow",
    "look": "yellow",
    "pass": "green",
    "ok": "green",
}


class CallError(SparcalError):
    """The call was wrong, not the work: exit code 2."""


class OutputError(SparcalError):
    """What a command has to say cannot be written to standard output."""


@contextmanager
def wrong_call() -> Iterator[None]:
    """Refusals inside this block are about what was asked for, so they end with exit code 2.

    A damaged file, a full disk and another process at work are nobody's wrong call.
    """
    try:
        yield
    except SparcalError as error:
        if isinstance(error, ArtifactError | BusyError | FullDiskError) and not isinstance(error, NoStationError):
            raise
        raise CallError(str(error)) from error


@contextmanager
def spoken_warnings() -> Iterator[None]:
    """Inside this block a warning is one sentence on standard error, without the line of code that gave it."""
    before = warnings.showwarning
    warnings.showwarning = lambda message, *_, **__: say(f"Warning: {message}")
    try:
        yield
    finally:
        warnings.showwarning = before


@contextmanager
def progress(*stages: str) -> Iterator[Progress]:
    """A progress bar with rate and time left on a terminal; silent elsewhere.

    Args:
        stages: what is done; the next one begins when the count does.
    """
    if not sys.stderr.isatty():
        yield unwatched
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[count]}"),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        left = [visible(stage) for stage in stages]
        running = [bars.add_task(left.pop(0), total=None, count="", rate="")]  # the bar moves; nothing counted yet

        def report(done: int, total: int) -> None:
            if left and done < bars.tasks[-1].completed:
                running.append(bars.add_task(left.pop(0), total=total, count="", rate=""))
            speed = bars.tasks[-1].speed if total >= STEPS_WITH_A_RATE else None
            rate = "" if not speed else f"{speed:.1f}/s" if speed >= 1 else f"{1 / speed:.0f} s each"
            bars.update(running[-1], completed=done, total=total, count=f"{done} of {total}", rate=rate)

        yield report


def use_cores() -> int:
    """The same once there is work to do: torch then takes one core in each thread, never cores times threads."""
    import torch

    torch.set_num_threads(1)
    return core_count()


def print_json(value: object) -> None:
    """One JSON value in one line on standard output; NaN becomes null, because JSON has none."""
    text = json_text(_without_nan(value))
    with _to_stdout():
        typer.echo(text if stdout_takes(text) else json.dumps(json.loads(text)))


def stdout_takes(text: str) -> bool:
    """Whether standard output has these letters: a terminal without UTF-8 has few."""
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def print_table(
    rows: Sequence[Mapping[str, object]],
    *,
    title: str | None = None,
    columns: Sequence[str] | None = None,
    decimals: int | None = None,
) -> None:
    """Rows as a rich table; columns as the rows bring them, unless named; one that is empty is left out.

    Args:
        decimals: of every number that has some; by default four digits that count.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    brought = columns or dict.fromkeys(name for row in rows for name in row)
    names = [name for name in brought if any(row.get(name) not in (None, "") for row in rows)]
    table = Table(title=None if title is None else Text(visible(title)), title_justify="left", header_style="bold")
    numbers = {name for name in names if all(isinstance(row.get(name), int | float) for row in rows)}
    for name in names:
        narrowest = min(len(name), NARROWEST)
        side: Literal["left", "right"] = "right" if name in numbers else "left"
        table.add_column(Text(visible(name)), justify=side, overflow="fold", min_width=narrowest)
    for row in rows:
        table.add_row(*(_cell(row.get(name), decimals) for name in names))
    with _to_stdout():
        Console(width=None if sys.stdout.isatty() else 160).print(table)


def say(sentence: str) -> None:
    """One sentence on how the work goes, or a warning: on standard error, so that it never mixes with results."""
    with suppress(OSError):  # nobody reads it (a full disk, a reader that has gone): the work does not end for that
        typer.echo(visible(sentence), err=True)


def tell_nameless(operator: str | None) -> None:
    """Say where a history will name nobody; a browser asks for the name, a command must not."""
    if operator is None:
        say("Nobody is named in the history for this: give --operator NAME next time.")


def print_sentence(sentence: str) -> None:
    """One sentence of what was asked for: on standard output, with the tables, so that a file gets all of it."""
    print_text(visible(sentence))


def print_text(text: str) -> None:
    """A text of our own, of any number of lines, on standard output; letters that it lacks are shown as \\xfc."""
    with _to_stdout():
        typer.echo(text if stdout_takes(text) else text.encode("ascii", "backslashreplace").decode())


@contextmanager
def _to_stdout() -> Iterator[None]:
    """Inside this block a refusal to write is about standard output, not about a file of the work."""
    try:
        yield
    except BrokenPipeError:  # a reader that has seen enough, such as head
        raise
    except OSError as error:
        raise OutputError(f"Standard output takes no more: {error.strerror}. What was done before stands.") from error


def _cell(value: object, decimals: int | None) -> Text:
    """A value as people read it; a verdict has its colour on a terminal."""
    from rich.text import Text

    if value is None or isinstance(value, bool):
        return Text("yes" if value else "")
    if isinstance(value, float):
        form = ".4g" if decimals is None else f".{decimals}f"
        return Text("-" if math.isnan(value) else format(value, form))
    shown = visible(str(value))
    return Text(_MOMENT.sub(r"\1 \2", shown), style=_COLOURS.get(shown, ""))


def _without_nan(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(name): _without_nan(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(part) for part in value]
    return value
