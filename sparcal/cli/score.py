"""`sparcal score`: judge images with a lot; tables, heat maps and a page."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sparcal.cli.console import CallError, Json, print_json, print_table, progress, say, use_cores, wrong_call

if TYPE_CHECKING:
    from sparcal.lot import Judgement, Lot
    from sparcal.report import Results

WATCH_SECONDS = 1.0
SETTLED_SECONDS = 1.0  # a file that was written to this recently may not be whole yet


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(score)


def score(
    station: Annotated[Path, typer.Argument(help="Folder of the station.")],
    images: Annotated[list[str], typer.Argument(help="Images, folders or patterns.")],
    lot: Annotated[str | None, typer.Option(help="Lot to judge with; without it, the one that judges now.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for tables, heat maps and the page.")] = None,
    maps: Annotated[bool, typer.Option("--maps", help="Keep native-size float maps as TIFF.")] = False,
    overlays: Annotated[bool, typer.Option(help="Keep heat maps over the images.")] = True,
    watch: Annotated[bool, typer.Option("--watch", help="Go on judging what arrives in the folder.")] = False,
    engine: Annotated[str, typer.Option(help="local, or ray for a cluster.")] = "local",
    weights: Annotated[Path | None, typer.Option(help="Local weight file of the encoder.")] = None,
    as_json: Json = False,
) -> None:
    """Judge images: pass or fail against the lot's threshold, worst first."""
    from sparcal.images import find_images
    from sparcal.report import Results, Wanted, worst_first
    from sparcal.station import Station

    if engine not in ("local", "ray"):
        raise CallError(f"--engine must be local or ray, got {engine!r}.")
    if watch and (out is None or len(images) != 1 or not Path(images[0]).is_dir() or engine != "local"):
        raise CallError("--watch needs one folder of images, --out and the local engine: give all three.")
    if maps and out is None:
        raise CallError("--maps needs a folder to keep the maps in, got none: give --out.")
    with wrong_call():
        found = [] if watch else find_images(images)
        opened = Station.open(station, weights=weights, workers=use_cores())
        chosen = opened.lot(lot)
        results = None if out is None else Results(out, chosen, Wanted(overlays=overlays, maps=maps))
    if chosen.name is None:
        say(f"{chosen.title}.")
    if watch:
        assert results is not None
        _watch(chosen, Path(images[0]), results)
        return
    known = results.known() if results is not None else set()
    todo = [path for path in found if str(path) not in known]
    rows = [] if results is None else [row for row in results.rows if row["path"] in {str(path) for path in found}]
    with progress("Judging") as report:
        for done, judgement in enumerate(_judge(chosen, todo, engine), start=1):
            rows.append(results.add(judgement) if results is not None else {**judgement.row(), "map": None})
            report(done, len(todo))
    if results is not None:
        results.finish()
    _tell(worst_first(rows), results, as_json)
    if any(row["verdict"] == "error" for row in rows):
        raise typer.Exit(1)


def _judge(lot: Lot, paths: Sequence[Path], engine: str) -> Iterator[Judgement]:
    if engine == "local":
        return lot.stream(paths)
    from sparcal.cluster import stream_on_ray

    return stream_on_ray(lot, paths)


def _watch(lot: Lot, folder: Path, results: Results) -> None:
    """Judge what arrives, once each, until interrupted; a restart goes on where the results end."""
    from sparcal.errors import DataError
    from sparcal.images import find_images

    say(f"Watching {folder}; Ctrl-C ends it.")
    try:
        while True:
            try:
                found = find_images(folder)
            except DataError:  # nothing has arrived yet
                found = []
            known = {row["path"] for row in results.rows}
            new = [path for path in found if str(path) not in known and _settled(path)]
            for judgement in lot.stream(new):
                row = results.add(judgement)
                say(f"{row['verdict']:>5}  {_number(row['score'])}  {row['path']}")
            if new:
                results.finish()
            time.sleep(WATCH_SECONDS)
    except KeyboardInterrupt:
        say(f"Stopped after {len(results.rows)} images; the page is {results.finish()}.")


def _settled(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime > SETTLED_SECONDS
    except FileNotFoundError:
        return False


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _tell(rows: list[dict[str, object]], results: Results | None, as_json: bool) -> None:
    names = ("path", "score", "threshold", "verdict", "map", "reason")
    if as_json:
        print_json([{name: row.get(name) for name in names} for row in rows])
        return
    print_table(
        [{name: row.get(name) for name in ("verdict", "score", "threshold", "path", "reason")} for row in rows[:40]]
    )
    failed = sum(row["verdict"] == "fail" for row in rows)
    say(f"{failed} of {len(rows)} fail{'; the 40 worst are shown' if len(rows) > 40 else ''}.")
    if results is not None:
        say(f"The page is {results.folder / 'index.html'}.")
