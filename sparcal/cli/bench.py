"""`sparcal bench`: run an experiment, report its results, check a copy of a benchmark."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from sparcal.cli.console import CallError, Json, print_json, print_table, progress, say, wrong_call

if TYPE_CHECKING:
    from sparcal.bench.plan.unit import Unit
    from sparcal.bench.run.cache import Precision
    from sparcal.bench.run.folder import Mode, Results
    from sparcal.bench.run.work import Failed
    from sparcal.bench.run.work import Progress as UnitProgress
    from sparcal.bench.run.workplace import Workplace

ENGINES = ("local", "ray")
FORMATS = ("md", "latex", "csv", "html")
_SHOWN_FAILURES = 20


def register(app: typer.Typer) -> None:
    """Add the group and its three commands."""
    bench = typer.Typer(help="The paper as a program: run experiments, report them, check data.", no_args_is_help=True)
    bench.command()(run)
    bench.command()(report)
    bench.command()(data)
    app.add_typer(bench, name="bench")


def run(
    experiment: Annotated[Path, typer.Argument(help="An experiment file, e.g. experiments/demo.toml.")],
    out: Annotated[Path | None, typer.Option(help="Results folder; by default results/NAME.")] = None,
    data_: Annotated[
        list[str] | None, typer.Option("--data", help="DATASET=FOLDER, a benchmark's copy; may be given again.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on; nothing that is finished is repeated.")] = False,
    reuse: Annotated[
        list[Path] | None, typer.Option(help="Another results folder, whose units are taken over; may be given again.")
    ] = None,
    restart: Annotated[bool, typer.Option("--restart", help="Remove the results that are there, begin again.")] = False,
    engine: Annotated[str, typer.Option(help="local (processes of this machine) or ray (a cluster).")] = "local",
    workers: Annotated[int | None, typer.Option(min=1, help="Units at once; by default one per core.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Of each unit; by default cores / workers.")] = None,
    address: Annotated[
        str | None, typer.Option(help="Ray: a running cluster; auto finds it. Default: start one.")
    ] = None,
    num_gpus: Annotated[float, typer.Option(min=0, help="Ray: GPUs that each unit reserves.")] = 0.0,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; by default cuda with --num-gpus, else cpu.")] = None,
    cache: Annotated[Path | None, typer.Option(help="Folder of features; by default in the user's cache.")] = None,
    cache_limit: Annotated[float, typer.Option(min=0.001, help="Gigabytes that the cache may hold.")] = 100.0,
    precision: Annotated[
        str, typer.Option(help="Of cached features: float32, or float16 in half the room.")
    ] = "float32",
    encoder: Annotated[
        list[str] | None, typer.Option(help="Another encoder for all hosts, or HOST=ENCODER; may be given again.")
    ] = None,
    weights: Annotated[
        list[str] | None, typer.Option(help="A weight file for all encoders, or HOST=FILE; may be given again.")
    ] = None,
    prompts: Annotated[
        list[str] | None, typer.Option(help="HOST=FILE, AnomalyCLIP's prompts; may be given again.")
    ] = None,
    limit_categories: Annotated[int | None, typer.Option(min=1, help="Only the first so many of each dataset.")] = None,
    limit_seeds: Annotated[int | None, typer.Option(min=1, help="Only the first so many.")] = None,
    as_json: Json = False,
) -> None:
    """Run the units of an experiment; killed at any moment, --resume goes on where it was."""
    from sparcal.bench.plan.expand import Overrides, find_data, plan_units
    from sparcal.bench.plan.experiment import read_experiment
    from sparcal.bench.run.folder import open_results, start_results
    from sparcal.bench.run.workplace import Workplace, check_device, cores

    with wrong_call():
        _one_of("engine", engine, ENGINES)
        if resume and restart:
            raise CallError("Choose --resume or --restart, got both.")
        asked = read_experiment(experiment)
        overrides = Overrides(
            _by_host(encoder), _by_host(weights), _pairs("--prompts", prompts), limit_categories, limit_seeds
        )
        place = cache or _cache_folder()
        roots = find_data(asked, {name: Path(root) for name, root in _pairs("--data", data_).items()}, place)
        units = plan_units(asked, roots, overrides)
        at_once = min(workers or cores(), max(1, len(units)))
        workplace = Workplace(
            data={name: str(root.resolve()) for name, root in roots.items()},
            results=str((out or Path("results") / asked.name).resolve()),
            cache=str(place.resolve()),
            cache_limit=int(cache_limit * 1e9),
            precision=cast("Precision", precision),
            device=device or ("cuda" if num_gpus else "cpu"),
            threads=threads or max(1, cores() // at_once),
        )
        _one_of("precision", precision, ("float32", "float16"))
        if engine == "local":
            check_device(workplace.device)
        others = [open_results(folder) for folder in reuse or []]
        mode: Mode = "resume" if resume else "restart" if restart else "new"
        source = experiment.read_text(encoding="utf-8")
        results = start_results(Path(workplace.results), source, units, overrides=str(overrides), mode=mode)
    left = [unit for unit in units if not results.is_finished(unit)]
    left = [unit for unit in left if not any(results.adopt(other, unit) for other in others)]
    left = list({unit.hash: unit for unit in left}.values())  # two names for the same work are run once
    started = time.monotonic()
    with _unit_progress(asked.name) as bar:
        failed = _run(engine, left, workplace, at_once, address, num_gpus, bar)
    _summary(results, units, left, failed, time.monotonic() - started, as_json)
    if failed:
        raise typer.Exit(1)


def report(
    results: Annotated[Path, typer.Argument(help="A results folder of sparcal bench run.")],
    format_: Annotated[str, typer.Option("--format", help="What is printed: md, latex, csv or html.")] = "md",
    out: Annotated[Path | None, typer.Option(help="Where the files go; by default RESULTS/report.")] = None,
    as_json: Json = False,
) -> None:
    """Make every table and figure of an experiment, in all formats, beside the paper's numbers; print one format."""
    from sparcal.bench.report.report import make_report
    from sparcal.bench.run.folder import open_results

    with wrong_call():
        _one_of("format", format_, FORMATS)
        opened = open_results(results)
    made = make_report(opened, out or results / "report")
    if as_json:
        print_json(made.to_json())
    else:
        typer.echo(made.text(format_))
        say(f"{made.summary()} The files are in {made.folder}.")


def data(
    dataset: Annotated[str, typer.Argument(help="mvtec-ad-2, aebad-s, visa, rad, mvtec-ad or folder.")],
    root: Annotated[Path, typer.Argument(help="The folder of the copy.")],
    as_json: Json = False,
) -> None:
    """Check a copy of a benchmark: counts, unreadable files, masks, junk."""
    from sparcal.bench.datasets import check_copy
    from sparcal.bench.datasets.catalogue import open_copy

    with wrong_call():
        open_copy(dataset, root)
    with progress(f"Reading {dataset}") as bar:
        found = check_copy(dataset, root, progress=bar)
    if as_json:
        print_json(found.to_json())
    else:
        header, rows = found.table()
        print_table([dict(zip(header, row, strict=True)) for row in rows], title=f"{dataset} in {root}")
        for one in found.findings:
            say(f"{'Problem' if one.is_problem else 'Note'}: {one.kind}: {one.path}: {one.text}")
        say("The copy is complete." if found.ok else "The copy is not complete: see the rows that are not ok.")
    if not found.ok:
        raise typer.Exit(1)


def _run(
    engine: str,
    units: Sequence[Unit],
    workplace: Workplace,
    at_once: int,
    address: str | None,
    gpus: float,
    bar: UnitProgress,
) -> list[Failed]:
    if engine == "ray":
        from sparcal.bench.run.ray_runner import run_ray

        return run_ray(units, workplace, workers=at_once, address=address, gpus=gpus, progress=bar)
    from sparcal.bench.run.local_runner import run_local

    return run_local(units, workplace, workers=at_once, progress=bar)


def _summary(
    results: Results,
    units: Sequence[Unit],
    left: Sequence[Unit],
    failed: Sequence[Failed],
    seconds: float,
    as_json: bool,
) -> None:
    finished = sum(results.is_finished(unit) for unit in units)
    if as_json:
        print_json(
            {
                "results": str(results.path),
                "units": len(units),
                "finished": finished,
                "run": len(left),
                "failed": [{"unit": str(f.unit), "hash": f.unit.hash, "reason": f.reason} for f in failed],
                "seconds": seconds,
            }
        )
        return
    for one in failed[:_SHOWN_FAILURES]:
        say(f"Failed: {one.unit}: {one.reason}")
    if len(failed) > _SHOWN_FAILURES:
        say(f"and {len(failed) - _SHOWN_FAILURES} more; all are in {results.path / 'failures'}.")
    say(
        f"{finished} of {len(units)} units are finished, {len(left) - len(failed)} of them by this run, in {seconds:.0f} s; "
        f"{len(failed)} failed. Next: sparcal bench report {results.path}"
    )


@contextmanager
def _unit_progress(name: str) -> Iterator[UnitProgress]:
    """A bar with rate, time left and failures on a terminal; silent elsewhere."""
    if not sys.stderr.isatty():
        yield _silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    rate = TextColumn("{task.fields[rate]} units/min, {task.fields[failed]} failed")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), rate, TimeRemainingColumn())
    started = time.monotonic()
    with Progress(*columns, console=Console(stderr=True), transient=True, speed_estimate_period=600) as bars:
        task = bars.add_task(name, total=None, rate="0", failed=0)

        def update(done: int, total: int, failed: int) -> None:
            per_minute = 60 * done / max(time.monotonic() - started, 1e-9)
            bars.update(task, completed=done, total=total, rate=f"{per_minute:.1f}", failed=failed)

        yield update


def _silent(done: int, total: int, failed: int) -> None:
    """Progress that nobody watches."""


def _by_host(given: list[str] | None) -> dict[str, str]:
    """HOST=VALUE for one host; a value alone is for all."""
    from sparcal.bench.plan.contenders import NAMES
    from sparcal.bench.plan.expand import ALL

    found = {}
    for text in given or []:
        host, equals, value = text.partition("=")
        found.update({host: value} if equals and host in NAMES else {ALL: text})
    return found


def _pairs(option: str, given: list[str] | None) -> dict[str, str]:
    pairs = {}
    for text in given or []:
        name, equals, value = text.partition("=")
        if not equals or not value:
            raise CallError(f"{option} takes NAME=PATH, got {text!r}.")
        pairs[name] = value
    return pairs


def _one_of(what: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise CallError(f"There is no {what} {value!r}; choose from {', '.join(choices)}.")


def _cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "sparcal"
