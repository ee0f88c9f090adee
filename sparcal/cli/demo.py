"""`sparcal demo`: the main job end to end, offline."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from sparcal.cli.console import print_json, print_sentence, print_table, progress, say, use_cores, wrong_call
from sparcal.cli.options import Device, Json, NewRuntime
from sparcal.devices import AUTO_DEVICE
from sparcal.files.atomic import require_folder
from sparcal.runtimes import TORCH, check_runtime

if TYPE_CHECKING:
    from sparcal.rendering.parts import Shift

CONTRAST_SEEDS = 3


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(demo)


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the page and its pictures.")] = Path("demo"),
    k: Annotated[list[int] | None, typer.Option(help="Calibration images, 2 to 8; may be given again.")] = None,
    shift: Annotated[str, typer.Option(help="What changed: lights, random, moved, lights+moved or none.")] = "lights",
    seeds: Annotated[int, typer.Option(min=1, help="Paired repetitions, each with its own parts.")] = 5,
    device: Device = AUTO_DEVICE,
    runtime: NewRuntime = None,
    as_json: Json = False,
) -> None:
    """The main job end to end, offline. Renders parts and a shifted lot, calibrates, and compares."""
    from sparcal.bench.demo.comparison import CONTRASTED, Plan, run_demonstration, summarise
    from sparcal.bench.demo.page import SHIFTS, write_demo_page
    from sparcal.encoders.placement import device_for

    with wrong_call():
        check_runtime(runtime or TORCH)
        device_for(runtime or TORCH, device)
        plan = Plan(ks=tuple(k or (8,)), shift=cast("Shift", shift), seeds=seeds)
        require_folder(out, "The demonstration")  # before minutes of work, not after
    # The contrast only has to be seen: fewer seeds keep the wait short.
    other = replace(
        plan,
        shift="lights" if shift == "random" else "random",
        corrections=CONTRASTED,
        ks=plan.ks[:1],
        seeds=min(seeds, CONTRAST_SEEDS),
    )
    workers = use_cores()
    say("Two lots are rendered, calibrated and judged: two to four minutes on two cores.")
    with progress(f"Lot with {SHIFTS[plan.shift]}") as report:
        result = run_demonstration(plan, workers=workers, device=device, runtime=runtime, progress=report)
    with progress(f"Lot with {SHIFTS[other.shift]}") as report:
        contrast = run_demonstration(other, workers=workers, device=device, runtime=runtime, progress=report)
    page = write_demo_page(result, contrast, out, command=" ".join(["sparcal", *sys.argv[1:]]))
    if as_json:
        print_json({"rows": result.rows, "contrast": {"shift": other.shift, "rows": contrast.rows}, "page": str(page)})
        return
    for changed, run in ((SHIFTS[plan.shift], result), (SHIFTS[other.shift], contrast)):
        title = f"A lot with {changed}: mean over {run.plan.seeds} seeds, 0-100"
        print_table(summarise(run.rows), title=title, decimals=1)
    print_sentence(f"The page is {page}.")
