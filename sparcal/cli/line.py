"""`sparcal-line`: judge with an exported lot, on a machine that has no torch; what it prints is what `sparcal` prints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from sparcal.cli import main as run_commands
from sparcal.cli.console import CallError, print_json, print_sentence, print_table, say, wrong_call
from sparcal.cli.help import explain_plainly
from sparcal.cli.options import Idle, Json, JudgedImages, MapFormat, Overlays, ResultsPath, Watch
from sparcal.cli.score import check_call, judge_all, tell, to_judge
from sparcal.cli.watch import watch_folder

if TYPE_CHECKING:
    from sparcal.station.judged_folder import Maps

line_app = typer.Typer(
    name="sparcal-line",
    help="Judge with a lot that sparcal export wrote. Needs no torch.",
    epilog="--debug, anywhere in a call, shows the traceback of an error.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@line_app.command("score")
def score_exported(
    model: Annotated[Path, typer.Argument(help="The folder that sparcal export wrote.")],
    images: JudgedImages,
    lot: Annotated[str | None, typer.Option(help="Lot to judge with; without it, the one in the model.")] = None,
    out: ResultsPath = None,
    maps: MapFormat = "npy",
    overlays: Overlays = True,
    watch: Watch = False,
    idle: Idle = None,
    as_json: Json = False,
) -> None:
    """Judge images: pass or fail against the lot's threshold, worst first."""
    from sparcal.export.exported_lot import open_exported
    from sparcal.imaging.find import find_images
    from sparcal.station.judged_folder import Results, Wanted, worst_first

    check_call(images, out, watch, idle)
    with wrong_call():
        wanted = Wanted(maps=cast("Maps", maps), overlays=overlays)
        found = [] if watch else find_images(images)
        chosen = open_exported(_existing(model), lot)
        results = None if out is None else Results(out, chosen, wanted, mixed=watch)
    there = True
    if watch and results is not None:
        there = watch_folder(chosen, Path(images[0]), results, idle=idle, as_json=as_json)
        rows = list(results.rows.values())
    else:
        (say if as_json else print_sentence)(chosen.sentence)
        rows = judge_all(to_judge(found, results), results, chosen.stream)
    if not (watch and as_json):
        tell(worst_first(rows), results, as_json, chosen)
    if not there or any(row["verdict"] == "error" for row in rows):
        raise typer.Exit(1)


@line_app.command("lots")
def list_exported(
    model: Annotated[Path, typer.Argument(help="The folder that sparcal export wrote.")], as_json: Json = False
) -> None:
    """List the lots that a model can judge by: its own, and those of the state files beside it."""
    from sparcal.export.exported_lot import exported_lots, model_file

    with wrong_call():
        path = model_file(_existing(model))
        found = exported_lots(path)
    rows = [{"lot": name, "file": str(state or path)} for name, state in found.items()]
    if as_json:
        print_json(rows)
    else:
        print_table(rows)


def _existing(model: Path) -> Path:
    if not model.exists():
        raise CallError(
            f"There is no exported model at {model}: check the path, or make one with sparcal export STATION."
        )
    return model


explain_plainly(line_app)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and leave with its exit code."""
    run_commands(arguments, commands=line_app)
