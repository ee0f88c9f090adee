"""`sparcal score`: judge images with a lot; tables, heat maps and a page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from sparcal.cli.completion import lot_names
from sparcal.cli.console import CallError, print_json, print_sentence, print_table, progress, say, use_cores, wrong_call
from sparcal.cli.options import (
    Device,
    Idle,
    Json,
    JudgedImages,
    MapFormat,
    Overlays,
    ResultsPath,
    StationPath,
    StationRuntime,
    Watch,
    WeightsFile,
)
from sparcal.cli.watch import lot_facts, watch_folder
from sparcal.devices import AUTO_DEVICE
from sparcal.runtimes import AUTO_RUNTIME
from sparcal.settings import file_path
from sparcal.threads import core_count

if TYPE_CHECKING:
    from sparcal.station.judge_facts import Judge
    from sparcal.station.judged_folder import Maps, Results
    from sparcal.station.judgement import Judgement
    from sparcal.station.lot import Lot

LISTED = 40
FEWEST_JUDGED = 4  # parts below which "all fail" says nothing about the light


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(score)


def score(
    station: StationPath,
    images: JudgedImages,
    lot: Annotated[
        str | None,
        typer.Option(help="Lot to judge with; without it, the one that is active.", autocompletion=lot_names),
    ] = None,
    out: ResultsPath = None,
    maps: MapFormat = "npy",
    overlays: Overlays = True,
    watch: Watch = False,
    idle: Idle = None,
    engine: Annotated[str, typer.Option(help="local, or ray for a cluster.")] = "local",
    weights: WeightsFile = None,
    device: Device = AUTO_DEVICE,
    runtime: StationRuntime = AUTO_RUNTIME,
    as_json: Json = False,
) -> None:
    """Judge images, worst first. Pass or fail against the threshold of a lot."""
    from sparcal.imaging.find import find_images
    from sparcal.station.in_service import LotInService
    from sparcal.station.station import Station

    check_call(images, out, watch, idle, engine)
    with wrong_call():
        found = [] if watch else find_images(images)
        opened = Station.open(station, weights=weights, workers=core_count(), device=device, runtime=runtime)
        service = LotInService(opened, lot)
    from sparcal.station.judged_folder import Results, Wanted, worst_first  # from here on there is work, and torch

    use_cores()
    _tell_stopped(service.lot)
    with wrong_call():
        wanted = Wanted(maps=cast("Maps", maps), overlays=overlays)
        results = None if out is None else Results(out, service.lot, wanted, mixed=watch)
    there = True
    if watch and results is not None:
        there = watch_folder(service, Path(images[0]), results, idle=idle, as_json=as_json)
        rows = list(results.rows.values())
    else:
        (say if as_json else print_sentence)(lot_facts(service.lot)["sentence"])
        lot_now = service.lot
        rows = judge_all(to_judge(found, results), results, lambda paths: _judge(lot_now, paths, engine))
    if not (watch and as_json):
        tell(worst_first(rows), results, as_json, service.lot)
    if not there or any(row["verdict"] == "error" for row in rows):
        raise typer.Exit(1)


def _tell_stopped(judging: Lot) -> None:
    """Where a check stopped the lot that judges, or the last one, which therefore does not: that is what somebody must know."""
    if judging.name is not None:
        if judging.record.verdict == "stop":
            say(
                f"A check of lot {judging.name} says stop, so its verdicts may be wrong: "
                f"sparcal show {judging.station.path} --lot {judging.name!r} tells which."
            )
        return
    last = judging.station.folder.read_lots()[-1:]
    if last and last[0]["verdict"] == "stop":
        name = last[0]["name"]
        say(
            f"Lot {name} was calibrated and does not judge, because a check says stop: "
            f"sparcal show {judging.station.path} --lot {name!r} tells which."
        )


def check_call(images: Sequence[str], out: Path | None, watch: bool, idle: float | None, engine: str = "local") -> None:
    """Refuse options that do not go together."""
    if engine not in ("local", "ray"):
        raise CallError(f"--engine must be local or ray, got {engine!r}: choose one of them.")
    local = engine == "local"
    if watch:
        file_path(images[0], "What is watched")
    if watch and (out is None or len(images) != 1 or not Path(images[0]).is_dir() or not local):
        raise CallError("--watch needs one folder of images, --out and the local engine, got less: give all three.")
    if idle is not None and not watch:
        raise CallError("--idle says when --watch ends, got it without --watch: leave it out.")
    if idle is not None and not idle >= 0:
        raise CallError(f"--idle must be a number of seconds of at least 0, got {idle:g}: give another.")


def to_judge(found: Sequence[Path], results: Results | None) -> list[Path]:
    """Each image once; maps and overlays of an earlier run are none."""
    images = [path for path in dict.fromkeys(found) if results is None or not results.holds(path)]
    ours = len(set(found)) - len(images)
    if not images:
        raise CallError(
            f"Judging needs images, got {ours} maps and overlays of an earlier run: give the images' folder."
        )
    if ours:
        say(f"{ours} maps and overlays of an earlier run lie among the images; they are left out.")
    return images


def judge_all(
    found: Sequence[Path], results: Results | None, judge: Callable[[Sequence[Path]], Iterator[Judgement]]
) -> list[dict[str, object]]:
    """Judge what is new; what an earlier run into the same folder has judged stands."""
    known = {} if results is None else {path: row["sha256"] for path, row in results.rows.items()}
    todo = [path for path in found if str(path) not in known or known[str(path)] != _content(path)]
    if results is not None:
        results.require_room(todo)
    rows = []
    with progress("Judging") as report:
        for done, judgement in enumerate(judge(todo), start=1):
            rows.append(results.add(judgement) if results is not None else {**judgement.row(), "map": None})
            report(done, len(todo))
    if results is None:
        return rows
    results.finish()
    return [results.rows[str(path)] for path in found]


def _content(path: Path) -> str | None:
    from sparcal.files.hashing import file_digest

    try:
        return file_digest(path)
    except OSError:  # it is judged again, and then reported as what cannot be read
        return None


def _judge(lot: Lot, paths: Sequence[Path], engine: str) -> Iterator[Judgement]:
    if engine == "local":
        return lot.stream(paths)
    from sparcal.station.cluster import stream_on_ray

    return stream_on_ray(lot, paths)


def tell(rows: Sequence[dict[str, object]], results: Results | None, as_json: bool, judge: Judge) -> None:
    """Print rows, worst first: all of them as JSON, or a table, how many fail, and what that may mean."""
    from sparcal.station.judged_page import close_calls

    names = ("path", "score", "threshold", "verdict", "map", "reason")
    if as_json:
        print_json([{name: row.get(name) for name in names} for row in rows])
        return
    shown = ("verdict", "score", "threshold", "path", "reason")
    print_table([{name: row.get(name) for name in shown} for row in rows[:LISTED]])
    more = f"; the {LISTED} worst are shown" if len(rows) > LISTED else ""
    print_sentence(f"{_counted(rows)}{more}.")
    for hint in (close_calls(rows), _too_many(rows, judge)):
        if hint:
            print_sentence(hint)
    if results is not None and len(results.rows) > len(rows):
        before = len(results.rows) - len(rows)
        print_sentence(
            f"The folder {results.folder} also holds {before} images of earlier calls: page and scores.csv count them too, "
            f"{_counted(list(results.rows.values()))}."
        )
    if results is not None:
        print_sentence(f"The page is {results.folder / 'index.html'}.")


def _too_many(rows: Sequence[dict[str, object]], judge: Judge) -> str:
    """A sentence where so many fail that the light may have changed rather than the parts; nothing elsewhere."""
    from sparcal.calibration.promise import check_promise

    limit = judge.on_page().limit
    verdicts = [row["verdict"] for row in rows if limit is None or row["threshold"] == limit.value]
    judged, failed = len(verdicts) - verdicts.count("error"), verdicts.count("fail")
    if judged < FEWEST_JUDGED or failed <= judged / 2:
        return ""
    promise = None if limit is None else check_promise(limit, judged, failed)
    if failed < judged and (promise is None or not promise.contradicted):
        return ""
    again = "a lot" if judge.name is None else "a new lot"
    return f"If the parts are good, the lamp, the camera or the fixture has changed: calibrate {again}."


def _counted(rows: Sequence[dict[str, object]]) -> str:
    verdicts = [row["verdict"] for row in rows]
    errors = verdicts.count("error")
    return f"{verdicts.count('fail')} of {len(rows)} fail{f', {errors} could not be judged' if errors else ''}"
