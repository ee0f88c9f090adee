"""`sparcal bench`: run an experiment, report its results, check a copy of a benchmark, list what there is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sparcal.cli.bench_run import require_choice, run_experiment
from sparcal.cli.console import print_json, print_sentence, print_table, print_text, progress, say, wrong_call
from sparcal.cli.options import Json

REPORT_FORMATS = ("md", "latex", "csv", "html")


def register(app: typer.Typer) -> None:
    """Add the group and its commands."""
    bench = typer.Typer(help="The paper as a program. Run experiments, report them, check data.", no_args_is_help=True)
    bench.command("list")(list_experiments)
    bench.command("run")(run_experiment)
    bench.command("report")(report_run)
    bench.command("data")(check_data)
    bench.command("datasets")(list_datasets)
    bench.command("fidelity")(print_fidelity)
    app.add_typer(bench, name="bench")


def list_experiments(as_json: Json = False) -> None:
    """The experiments that come with the package. Run one with sparcal bench run NAME."""
    from sparcal.bench.experiments import experiment_datasets, experiment_titles

    needed = experiment_datasets()
    rows = [
        {"name": name, "data": ", ".join(needed[name]), "title": title} for name, title in experiment_titles().items()
    ]
    if as_json:
        print_json(rows)
    else:
        print_table(rows, title="Experiments")
        print_sentence(
            "Run one with sparcal bench run NAME; demo renders its data. sparcal bench datasets says where to get the others."
        )


def list_datasets(as_json: Json = False) -> None:
    """The benchmarks, and where to get a copy."""
    from sparcal.bench.datasets.catalogue import DATASETS, OWN_DATASETS
    from sparcal.plugins import plugin_packages

    packages = plugin_packages("sparcal.datasets", OWN_DATASETS)
    rows = [
        {"name": name, "title": dataset.title, "copy": dataset.remedy, "package": packages.get(name, "")}
        for name, dataset in DATASETS.items()
    ]
    if as_json:
        print_json(rows)
    else:
        print_table(rows, title="Datasets")


def print_fidelity() -> None:
    """How close this is to the paper. Host by host: what it says, what its authors do, what we do, and the test (Markdown)."""
    from sparcal.bench.fidelity.page import fidelity_page

    print_text(fidelity_page().removesuffix("\n"))


def report_run(
    results: Annotated[Path, typer.Argument(help="A results folder of sparcal bench run.")],
    format_: Annotated[str, typer.Option("--format", help="What is printed: md, latex, csv or html.")] = "md",
    out: Annotated[Path | None, typer.Option(help="Where the files go; by default RESULTS/report.")] = None,
    as_json: Json = False,
) -> None:
    """Make the tables and figures of an experiment. In all formats, beside the paper's numbers; prints one format."""
    from sparcal.bench.report.report import make_report
    from sparcal.bench.run.folder import open_results

    with wrong_call():
        require_choice("format", format_, REPORT_FORMATS)
        opened = open_results(results)
    made = make_report(opened, out or results / "report")
    if as_json:
        print_json(made.to_json())
    else:
        print_text(made.text(format_))
        say(f"{made.summary()} The files are in {made.folder}.")


def check_data(
    dataset: Annotated[
        str, typer.Argument(help="Such as mvtec-ad-2, or folder for your own images; a wrong name lists all.")
    ],
    root: Annotated[Path, typer.Argument(help="The folder of the copy.")],
    as_json: Json = False,
) -> None:
    """Check a copy of a benchmark. Counts, unreadable files, masks, junk."""
    from sparcal.bench.datasets import check_copy
    from sparcal.bench.datasets.catalogue import open_copy

    with wrong_call():
        open_copy(dataset, root)
    with progress(f"Reading {dataset}") as bar:
        checked = check_copy(dataset, root, progress=bar)
    if as_json:
        print_json(checked.to_json())
    else:
        header, rows = checked.table()
        print_table([dict(zip(header, row, strict=True)) for row in rows], title=f"{dataset} in {root}")
        for finding in checked.findings:
            kind = "Problem" if finding.is_problem else "Note"
            print_sentence(f"{kind}: {finding.kind}: {finding.path}: {finding.text}")
        print_sentence(
            "The copy is complete." if checked.ok else "The copy is not complete: see the rows that are not ok."
        )
    if not checked.ok:
        raise typer.Exit(1)
