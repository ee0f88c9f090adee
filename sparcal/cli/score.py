"""`sparcal score`: judge images with a lot; tables, heat maps and a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from sparcal.cli.console import CallError, Json, print_json, print_table, progress, say, use_cores, wrong_call

if TYPE_CHECKING:
    from sparcal.station.judged_folder import Maps, Results
    from sparcal.station.lot import Judgement, Lot

LISTED = 40


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(score)


def score(
    station: Annotated[Path, typer.Argument(help="Folder of the station.")],
    images: Annotated[list[str], typer.Argument(help="Images, folders or patterns.")],
    lot: Annotated[str | None, typer.Option(help="Lot to judge with; without it, the one that judges now.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for tables, maps, overlays and the page.")] = None,
    maps: Annotated[str, typer.Option(help="Native-size float maps in --out: npy, tiff or none.")] = "npy",
    overlays: Annotated[bool, typer.Option(help="Heat maps over the images, in --out.")] = True,
    watch: Annotated[bool, typer.Option("--watch", help="Go on judging what arrives in the folder.")] = False,
    idle: Annotated[
        float | None, typer.Option(help="With --watch, end after so many seconds without a new image.")
    ] = None,
    engine: Annotated[str, typer.Option(help="local, or ray for a cluster.")] = "local",
    weights: Annotated[Path | None, typer.Option(help="Local weight file of the encoder.")] = None,
    as_json: Json = False,
) -> None:
    """Judge images: pass or fail against the lot's threshold, worst first."""
    from sparcal.imaging.find import find_images
    from sparcal.station.judged_folder import Results, Wanted, worst_first
    from sparcal.station.station import Station

    if engine not in ("local", "ray"):
        raise CallError(f"--engine must be local or ray, got {engine!r}: choose one of them.")
    if watch and (out is None or len(images) != 1 or not Path(images[0]).is_dir() or engine != "local"):
        raise CallError("--watch needs one folder of images, --out and the local engine, got less: give all three.")
    if idle is not None and not watch:
        raise CallError("--idle says when --watch ends, got it without --watch: leave it out.")
    with wrong_call():
        wanted = Wanted(maps=cast("Maps", maps), overlays=overlays)
        found = [] if watch else find_images(images)
        opened = Station.open(station, weights=weights, workers=use_cores())
        chosen = opened.lot(lot)
        results = None if out is None else Results(out, chosen, wanted)
    _tell_by_what(chosen)
    if watch:
        assert results is not None
        _watch(chosen, Path(images[0]), results, idle)
        rows = list(results.rows.values())
    else:
        rows = _judge_all(chosen, found, results, engine)
    _tell(worst_first(rows), results, as_json)
    if any(row["verdict"] == "error" for row in rows):
        raise typer.Exit(1)


def _tell_by_what(lot: Lot) -> None:
    """By which lot parts are judged, and what its threshold does to good parts and planted defects."""
    say(f"{lot.title}: the threshold {lot.threshold.value:.4g} {lot.effect_of(lot.threshold.value).sentence}.")


def _judge_all(lot: Lot, found: Sequence[Path], results: Results | None, engine: str) -> list[dict[str, object]]:
    """Judge what is new; what an earlier run into the same folder has judged stands."""
    from sparcal.imaging.decode import content_hash

    known = {} if results is None else {path: row["sha256"] for path, row in results.rows.items()}
    todo = [path for path in found if str(path) not in known or known[str(path)] != content_hash(path)]
    if results is not None:
        results.require_room(todo)
    rows = []
    with progress("Judging") as report:
        for done, judgement in enumerate(_judge(lot, todo, engine), start=1):
            rows.append(results.add(judgement) if results is not None else {**judgement.row(), "map": None})
            report(done, len(todo))
    if results is None:
        return rows
    results.finish()
    return [results.rows[str(path)] for path in found]


def _judge(lot: Lot, paths: Sequence[Path], engine: str) -> Iterator[Judgement]:
    if engine == "local":
        return lot.stream(paths)
    from sparcal.station.cluster import stream_on_ray

    return stream_on_ray(lot, paths)


def _watch(lot: Lot, folder: Path, results: Results, idle: float | None) -> None:
    """Judge what arrives, once each, until interrupted; a restart goes on where the results end."""
    from sparcal.station.watch import arrivals

    say(f"Watching {folder}; Ctrl-C ends it.")
    try:
        for new in arrivals(folder, results.known, idle_s=idle):
            for judgement in lot.stream(new):
                row = results.add(judgement)
                value = "" if row["score"] is None else f"{row['score']:.4g}"
                say(f"{row['verdict']:>5}  {value:>8}  {row['path']}")
            results.finish()
    except KeyboardInterrupt:
        say("Stopped.")
    results.finish()


def _tell(rows: Sequence[dict[str, object]], results: Results | None, as_json: bool) -> None:
    names = ("path", "score", "threshold", "verdict", "map", "reason")
    if as_json:
        print_json([{name: row.get(name) for name in names} for row in rows])
        return
    shown = ("verdict", "score", "threshold", "path", "reason")
    print_table([{name: row.get(name) for name in shown} for row in rows[:LISTED]])
    failed = sum(row["verdict"] == "fail" for row in rows)
    errors = sum(row["verdict"] == "error" for row in rows)
    more = f"; the {LISTED} worst are shown" if len(rows) > LISTED else ""
    say(f"{failed} of {len(rows)} fail{f', {errors} could not be judged' if errors else ''}{more}.")
    if results is not None:
        say(f"The page is {results.folder / 'index.html'}.")
