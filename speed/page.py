"""What was measured, as a table for the terminal and as docs/explanation/speed.md with its picture."""

from __future__ import annotations

import datetime
import os
import platform
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rich.console import Console
from rich.table import Table

from speed.growth import LARGE_USUAL, USUAL, Curve
from speed.measure import Cost, Row, cores
from speed.sections import longer_sections, with_section

COLUMNS = (
    "path",
    "peer",
    "goal",
    "measured",
    "goal met",
    "ours: CPU s (wall)",
    "peer: CPU s (wall)",
    "MB",
    "threads",
    "agree",
)
PACKAGES = ("sparcal", "torch", "numpy", "numba", "anomalib", "faiss-cpu", "timm")
PICTURE = "speed-growth.png"
CLOSE = 2  # ends of curves, one so many times the other, whose numbers would cover each other

INTRODUCTION = """# Speed

`make speed` measures every hot path against a peer in the same run and writes this page.

Each side of a row runs in its own process, with the stated number of threads, on the same inputs made from a seed.
Times are medians; the number after the slash counts the runs. CPU seconds add up all threads; wall seconds also depend on
what else the machine does. MB is how far our side raised the peak of resident memory above its inputs, result included. A
row counts only if the outputs agree; the notes below the table say how they were compared. Where a peer is too slow to run
in full, we time a part of it and extrapolate the rest; the row says so. Benchmarks whose goals are CPU time of one thread
run two at a time, one per core. Longer runs stand at the end, each under its command.

Ratios differ between machines. An earlier version without SPARC's compiled loops was 1.7 and 5.0 times as fast as the
batched SVD on an AMD processor with two cores, and 18 and 16 times on an Intel Xeon at 2.8 GHz, where the SVD suffers from
its second thread (1.7 and 2.5 with one thread each); the exact search 1.6 and 9.2 times as fast as faiss. So each side
of those rows may take one thread or one per core, and its better figure counts.
"""


def cells(row: Row) -> tuple[str, ...]:
    """One line of the table."""
    unit = row.goal.unit if row.goal is not None else "x"
    return (
        row.path,
        row.peer,
        "-" if row.goal is None else str(row.goal),
        f"{row.measured:.3g}{unit}",
        "-" if row.goal is None else "met" if row.met else "SHORT",
        spent(row.ours),
        "-" if row.theirs is None else spent(row.theirs),
        "-" if row.ours.extra_mb is None else f"{row.ours.extra_mb:.0f}",
        str(row.threads),
        "yes" if row.agree else "NO",
    )


def spent(cost: Cost) -> str:
    return f"{cost.cpu_s:.3g} ({cost.wall_s:.3g}) /{cost.runs}"


def print_table(rows: Sequence[Row], failures: Sequence[str]) -> None:
    table = Table(title="Speed against peers")
    for column in COLUMNS:
        table.add_column(column)
    for row in rows:
        table.add_row(*cells(row), style=None if row.met else "bold red")
    console = Console(width=None if Console().is_terminal else 220)
    console.print(table)
    for failure in failures:
        console.print(f"FAILED: {failure}")


def write_page(
    path: Path, rows: Sequence[Row], failures: Sequence[str], curves: Sequence[Curve], minutes: float
) -> None:
    """Page and picture; each replaces the old one in one step."""
    parts = [INTRODUCTION, f"Run of {datetime.date.today():%Y-%m-%d}, {minutes:.1f} minutes in all, on:\n\n{machine()}"]
    parts += ["## Goals\n", markdown([COLUMNS, *(cells(row) for row in rows)])]
    short = [row for row in rows if not row.met]
    reached = sum(row.goal is not None and row.met for row in rows)
    parts.append(f"\n{reached} of {sum(row.goal is not None for row in rows)} goals met.\n")
    parts.append("How the outputs of each row were compared, and what else to know:\n")
    parts.append("\n".join(f"- {row.path}, {row.peer}: {row.agreement}. {row.note}".rstrip() for row in rows))
    if short or failures:
        parts.append("\n## Short of the goal\n")
        parts += [
            f"- {row.path}, {row.peer}: {row.measured:.3g}{row.goal.unit} for {row.goal}. {row.short}"
            for row in short
            if row.goal
        ]
        parts += [f"- Did not run: {failure}" for failure in failures]
    if curves:
        replace_file(path.parent / PICTURE, lambda target: draw(curves, target))
        parts.append("\n## How cost grows\n\n" + growth_table(curves, USUAL, PICTURE))
    text = "\n".join(parts) + "\n" + "".join(f"\n{section}" for section in longer_sections(path).values())
    replace_file(path, lambda target: target.write_text(text, encoding="utf-8"))


def write_section(
    path: Path, names: str, rows: Sequence[Row], failures: Sequence[str], curves: Sequence[Curve], minutes: float
) -> None:
    """What a longer run of `names` measured, under its command on the page."""
    parts = [f"Run of {datetime.date.today():%Y-%m-%d}, {minutes:.1f} minutes in all, on:\n\n{machine()}"]
    if rows:
        parts.append(markdown([COLUMNS, *(cells(row) for row in rows)]) + "\n")
        parts.append("\n".join(f"- {row.path}, {row.peer}: {row.agreement}. {row.note}".rstrip() for row in rows))
    short = [row for row in rows if row.goal and not row.met]
    parts += [
        f"- Short: {row.path}: {row.measured:.3g}{row.goal.unit} for {row.goal}. {row.short}"
        for row in short
        if row.goal
    ]
    parts += [f"- Did not run: {failure}" for failure in failures]
    if curves:
        parts.append(growth_table(curves, LARGE_USUAL, None))
    text = with_section(path, names, "\n".join(parts))
    replace_file(path, lambda target: target.write_text(text, encoding="utf-8"))


def markdown(lines: Sequence[Sequence[str]]) -> str:
    head, *body = lines
    rule = ["---"] * len(head)
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *body))


def growth_table(curves: Sequence[Curve], usually: Mapping[str, int], picture: str | None) -> str:
    def number(value: float | None) -> str:
        return "-" if value is None else f"{value:.2f}"

    lines = [("step", "against", "from - to", "CPU s", "time exponent", "MB", "memory exponent")]
    for curve in curves:
        first, last = curve.costs[0], curve.costs[-1]
        memory = (
            "-" if first.extra_mb is None or last.extra_mb is None else f"{first.extra_mb:.0f} - {last.extra_mb:.0f}"
        )
        span, seconds = f"{curve.amounts[0]} - {curve.amounts[-1]}", f"{first.cpu_s:.3g} - {last.cpu_s:.3g}"
        lines.append(
            (curve.step, curve.against, span, seconds, number(curve.exponent), memory, number(curve.memory_exponent))
        )
    usual = ", ".join(f"{name} {amount}" for name, amount in usually.items())
    drawn = "" if picture is None else f"![Time and memory of each step]({picture})\n\n"
    return (
        f"PatchCore with SPARC, 256 channels, k = 8, one thread; usually {usual}; each row changes one of them. The "
        "exponent is the slope on logarithmic axes: 1 grows in proportion, 2 with the square.\n\n"
        f"{drawn}{markdown(lines)}"
    )


def draw(curves: Sequence[Curve], target: Path) -> None:
    """Time above, with the exponent at its end, memory below; one column per quantity."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    quantities, steps = list(USUAL), list(dict.fromkeys(curve.step for curve in curves))
    figure, axes = plt.subplots(2, len(quantities), figsize=(10, 5.5), sharex="col", sharey="row", layout="constrained")
    for curve in curves:
        column, colour = quantities.index(curve.against), f"C{steps.index(curve.step)}"
        seconds = [cost.cpu_s for cost in curve.costs]
        axes[0, column].loglog(curve.amounts, seconds, marker="o", color=colour, label=curve.step)
        beside = {
            "xytext": (6, 0),
            "textcoords": "offset points",
            "va": _clear_of_others(curve, curves),
            "color": colour,
        }
        axes[0, column].annotate(f"{curve.exponent:.1f}", (curve.amounts[-1], seconds[-1]), **beside)
        megabytes = [max(cost.extra_mb or 0, 0.1) for cost in curve.costs]
        axes[1, column].loglog(curve.amounts, megabytes, marker="o", color=colour)
        axes[1, column].set_xticks(curve.amounts, [str(amount) for amount in curve.amounts])
        axes[1, column].set_xlabel(curve.against)
    for place in axes.flat:
        place.margins(x=0.12)
        place.minorticks_off()
        place.yaxis.set_major_formatter("{x:g}")
        place.spines[["top", "right"]].set_visible(False)
        place.grid(visible=True, color="0.92")
    axes[0, 0].set_ylabel("CPU seconds")
    axes[1, 0].set_ylabel("MB beside the inputs")
    lines = {line.get_label(): line for place in axes[0] for line in place.lines}
    figure.legend(lines.values(), lines.keys(), loc="outside upper center", ncols=len(steps), frameon=False)
    figure.savefig(target, format="png", dpi=110)
    plt.close(figure)


def _clear_of_others(curve: Curve, curves: Sequence[Curve]) -> str:
    """Where the number at the end of a curve stands: away from one that ends close above or below it."""
    ends = {other.step: other.costs[-1].cpu_s for other in curves if other.against == curve.against}
    mine = ends.pop(curve.step)
    close = [end for end in ends.values() if max(end, mine) < CLOSE * min(end, mine)]
    return "center" if not close else "bottom" if mine >= max(close) else "top"


def machine() -> str:
    """Processor, cores, memory, load and versions, as a list."""
    kilobytes = int(first_match("/proc/meminfo", r"MemTotal:\s*(\d+)") or 0)
    facts = {
        "processor": first_match("/proc/cpuinfo", r"model name\s*:\s*(.+)")
        or platform.processor()
        or platform.machine(),
        "cores": str(cores()),
        "memory": f"{kilobytes / 2**20:.0f} GB",
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        "packages": ", ".join(f"{name} {found}" for name in PACKAGES if (found := installed(name))),
        "load": f"{os.getloadavg()[0]:.1f} processes on average in the last minute of the run, ours among them",
    }
    return "\n".join(f"- {name}: {fact}" for name, fact in facts.items()) + "\n"


def first_match(path: str, pattern: str) -> str | None:
    found = re.search(pattern, Path(path).read_text()) if Path(path).exists() else None
    return found[1] if found else None


def installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` make the file beside `path`, then put it in place in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    try:
        write(Path(name))
        os.chmod(name, 0o644)
        os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)
