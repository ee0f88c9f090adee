"""`sparcal bench run`: the options of a run, turned into units and a workplace, and handed to an engine."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from sparcal.cli.console import CallError, print_json, say, wrong_call
from sparcal.cli.options import Device, Json, NewRuntime
from sparcal.devices import AUTO_DEVICE
from sparcal.files.atomic import require_folder_place
from sparcal.files.names import visible
from sparcal.runtimes import AUTO_RUNTIME, TORCH, check_runtime
from sparcal.threads import core_count

if TYPE_CHECKING:
    from sparcal.bench.plan.expand import Overrides
    from sparcal.bench.plan.experiment import Experiment
    from sparcal.bench.plan.unit import Unit
    from sparcal.bench.run.cache import Precision
    from sparcal.bench.run.folder import RunFolder, StartMode
    from sparcal.bench.run.work import Failed, UnitProgress
    from sparcal.bench.run.workplace import Workplace
    from sparcal.runtimes import Runtime

ENGINES = ("local", "ray")
PRECISIONS = ("float32", "float16")
_SHOWN_FAILURES = 20

ExperimentName = Annotated[str, typer.Argument(help="A name from sparcal bench list, or the path of a TOML file.")]
Out = Annotated[Path | None, typer.Option(help="Results folder; by default results/NAME.")]
Data = Annotated[list[str] | None, typer.Option("--data", help="DATASET=FOLDER, a benchmark's copy; repeatable.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on; nothing that is finished is repeated.")]
Reuse = Annotated[list[Path] | None, typer.Option(help="A results folder to take finished units from; repeatable.")]
Restart = Annotated[bool, typer.Option("--restart", help="Remove the results that are there and begin again.")]
Engine = Annotated[str, typer.Option(help="local (processes of this machine) or ray (a cluster).")]
Workers = Annotated[int | None, typer.Option(min=1, help="Units at once; by default one per core.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Of each unit; by default cores / workers.")]
Address = Annotated[str | None, typer.Option(help="Ray: a running cluster; auto finds it. Default: start one.")]
Gpus = Annotated[float, typer.Option(min=0, help="Ray: GPUs that each unit reserves.")]
Cache = Annotated[Path | None, typer.Option(help="Folder of features; by default in the user's cache.")]
CacheLimit = Annotated[float, typer.Option(min=0.001, help="Gigabytes that the cache may hold.")]
CachePrecision = Annotated[str, typer.Option(help="Of cached features: float32, or float16 in half the room.")]
EncoderOption = Annotated[list[str] | None, typer.Option(help="Another encoder for all hosts, or HOST=ENCODER.")]
Weights = Annotated[list[str] | None, typer.Option(help="A weight file for all encoders, or HOST=FILE; repeatable.")]
Prompts = Annotated[list[str] | None, typer.Option(help="HOST=FILE, AnomalyCLIP's prompts; repeatable.")]
CategoryLimit = Annotated[int | None, typer.Option(min=1, help="Only the first so many of each dataset.")]
SeedLimit = Annotated[int | None, typer.Option(min=1, help="Only the first so many.")]


@dataclass(frozen=True)
class _Machine:
    """How and where units run."""

    engine: str
    workers: int | None
    threads: int | None
    address: str | None
    gpus: float
    device: str
    cache: Path
    cache_limit: float
    precision: str


def run_experiment(
    experiment: ExperimentName,
    out: Out = None,
    data_: Data = None,
    resume: Resume = False,
    reuse: Reuse = None,
    restart: Restart = False,
    engine: Engine = "local",
    workers: Workers = None,
    threads: Threads = None,
    address: Address = None,
    num_gpus: Gpus = 0.0,
    device: Device = AUTO_DEVICE,
    runtime: NewRuntime = None,
    cache: Cache = None,
    cache_limit: CacheLimit = 100.0,
    precision: CachePrecision = "float32",
    encoder: EncoderOption = None,
    weights: Weights = None,
    prompts: Prompts = None,
    limit_categories: CategoryLimit = None,
    limit_seeds: SeedLimit = None,
    as_json: Json = False,
) -> None:
    """Run an experiment. Killed at any moment, --resume goes on where it was."""
    from sparcal.bench.experiments import experiment_source
    from sparcal.bench.plan.experiment import parse_experiment
    from sparcal.bench.run.folder import open_results, start_results
    from sparcal.bench.run.row import require_arrow

    require_arrow()  # before an hour's work that could not be kept
    with wrong_call():
        require_choice("engine", engine, ENGINES)
        require_choice("precision", precision, PRECISIONS)
        mode = _start_mode(resume, restart)
        source = experiment_source(experiment)
        asked = parse_experiment(source, experiment)
        overrides = _overrides(encoder, weights, prompts, (limit_categories, limit_seeds), runtime)
        where, place = _where(device, runtime or TORCH, engine, num_gpus), cache or _cache_folder()
        machine = _Machine(engine, workers, threads, address, num_gpus, where, place, cache_limit, precision)
        others = [open_results(folder) for folder in reuse or []]
        units, workplace, at_once = _prepare(asked, overrides, _pairs("--data", data_), out, machine)
        results = start_results(Path(workplace.results), source, units, overrides=str(overrides), mode=mode)
    left = _left_to_run(units, results, others)
    started = time.monotonic()
    with _unit_progress(asked.name) as bar:
        failed = _run(machine, left, workplace, at_once, bar)
    _summary(results, units, left, failed, time.monotonic() - started, as_json)
    if failed:
        raise typer.Exit(1)


def _overrides(
    encoder: list[str] | None,
    weights: list[str] | None,
    prompts: list[str] | None,
    limits: tuple[int | None, int | None],
    runtime: str | None,
) -> Overrides:
    from sparcal.bench.plan.expand import Overrides

    return Overrides(_by_host(encoder), _by_host(weights), _pairs("--prompts", prompts), *limits, _one_runtime(runtime))


def _one_runtime(name: str | None) -> Runtime | None:
    """The runtime of every unit: rows that are compared come from one."""
    if name == AUTO_RUNTIME:
        raise CallError("A benchmark needs one runtime for all its units, got auto: choose torch, openvino or onnx.")
    if name is not None:
        check_runtime(name)
    return cast("Runtime | None", name)


def _where(device: str, runtime: str, engine: str, gpus: float) -> str:
    """Where units compute: on this machine what is there; on a cluster what was asked for, which its workers must have."""
    from sparcal.encoders.placement import device_for

    if engine == "local" or runtime != TORCH:
        return str(device_for(runtime, device))
    return ("cuda" if gpus else "cpu") if device == AUTO_DEVICE else device


def _start_mode(resume: bool, restart: bool) -> StartMode:
    if resume and restart:
        raise CallError("Choose --resume or --restart, got both.")
    return "resume" if resume else "restart" if restart else "new"


def _prepare(
    experiment: Experiment, overrides: Overrides, data: dict[str, str], out: Path | None, machine: _Machine
) -> tuple[list[Unit], Workplace, int]:
    """Every unit, where they run, and how many run at once."""
    from sparcal.bench.plan.expand import find_data, plan_units
    from sparcal.bench.run.workplace import Workplace

    require_folder_place(machine.cache, "The cache")  # before minutes of rendering, not after
    require_folder_place(out or Path("results"), "A run")
    roots = find_data(experiment, {name: Path(root) for name, root in data.items()}, machine.cache)
    units = plan_units(experiment, roots, overrides)
    at_once = min(machine.workers or core_count(), max(1, len(units)))
    workplace = Workplace(
        data={name: str(root.resolve()) for name, root in roots.items()},
        results=str((out or Path("results") / experiment.name).resolve()),
        cache=str(machine.cache.resolve()),
        cache_limit=int(machine.cache_limit * 1e9),
        precision=cast("Precision", machine.precision),
        device=machine.device,
        threads=machine.threads or max(1, core_count() // at_once),
    )
    return units, workplace, at_once


def _left_to_run(units: Sequence[Unit], results: RunFolder, others: Sequence[RunFolder]) -> list[Unit]:
    """What neither this run nor another one has finished; two names for the same work are run once."""
    left = [unit for unit in units if not results.is_finished(unit)]
    left = [unit for unit in left if not any(results.adopt(other, unit) for other in others)]
    return list({unit.hash: unit for unit in left}.values())


def _run(
    machine: _Machine, units: Sequence[Unit], workplace: Workplace, at_once: int, bar: UnitProgress
) -> list[Failed]:
    if machine.engine == "ray":
        from sparcal.bench.run.ray_runner import run_ray

        return run_ray(units, workplace, workers=at_once, address=machine.address, gpus=machine.gpus, progress=bar)
    from sparcal.bench.run.local_runner import run_local

    return run_local(units, workplace, workers=at_once, progress=bar)


def _summary(
    results: RunFolder,
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
    next_step = f" Next: sparcal bench report {results.path}" if finished else ""
    say(
        f"{finished} of {len(units)} units are finished, {len(left) - len(failed)} of them by this run, in {seconds:.0f} s; "
        f"{len(failed)} failed.{next_step}"
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
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        rate,
        TimeRemainingColumn(),
    )
    started = time.monotonic()
    with Progress(*columns, console=Console(stderr=True), transient=True, speed_estimate_period=600) as bars:
        task = bars.add_task(visible(name), total=None, rate="0", failed=0)

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

    values = {}
    for text in given or []:
        host, equals, value = text.partition("=")
        values.update({host: value} if equals and host in NAMES else {ALL: text})
    return values


def _pairs(option: str, given: list[str] | None) -> dict[str, str]:
    pairs = {}
    for text in given or []:
        name, equals, value = text.partition("=")
        if not equals or not value:
            raise CallError(f"{option} takes NAME=PATH, got {text!r}.")
        pairs[name] = value
    return pairs


def require_choice(what: str, value: str, choices: Sequence[str]) -> None:
    """Refuse a value that is not among the choices."""
    if value not in choices:
        raise CallError(f"There is no {what} {value!r}; choose from {', '.join(choices)}.")


def _cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "sparcal"
