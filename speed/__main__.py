"""Run the benchmarks, print one table, and write docs/explanation/speed.md.

    python -m speed            those with a goal on the page, in full: about twelve minutes on two idle cores
    python -m speed sparc lot  some, by name, the longer ones too; with --write they get a section of the page
    python -m speed --quick    small sizes, to see that everything runs; nothing is written

Exit code 1 if outputs disagree or a benchmark does not finish; a goal that is missed is marked, and no error.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

from speed import growth
from speed.measure import ROOT, Row, cores
from speed.page import growth_table, print_table, write_page, write_section

# Compared by time on the clock, some with a thread per core; by CPU time of one thread, so two of these may run at once.
# The longest come first, so that neither core waits long for the other.
ALONE = ("startup", "sparc", "neighbours", "folder")
TOGETHER = ("whole_lot", "lot", "export", "coreset", "musc", "aupro", "padim")
PAGE = (*ALONE, *TOGETHER)
LONGER = ("cache", "growth", "large", "runtimes")
NAMES = (*PAGE, *LONGER)

Outcome = list[Row] | str  # rows, or why there are none
Curves = list[growth.Curve] | str


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--write", action="store_true", help="put what was named into a section of the page")
    parser.add_argument(
        "--page", type=Path, default=ROOT / "docs" / "explanation" / "speed.md", help="where the page goes"
    )
    options = parser.parse_args()
    if unknown := set(options.names) - set(NAMES):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; choose from {', '.join(NAMES)}")
    started = time.perf_counter()
    found: dict[str, Outcome] = {}
    curves: Curves = []
    for name in options.names or ALONE:
        if name == "growth":
            curves = grow(growth.QUICK if options.quick else growth.LARGE, started)
        else:
            found[name] = run(name, options.quick, started)
    if not options.names:
        with ThreadPoolExecutor(min(2, cores())) as pool:
            growing = pool.submit(grow, growth.QUICK if options.quick else growth.CHANGES, started)
            others = list(pool.map(lambda name: run(name, options.quick, started), TOGETHER))
        curves = growing.result()
        found |= dict(zip(TOGETHER, others, strict=True))
    rows = [row for outcome in found.values() if not isinstance(outcome, str) for row in outcome]
    failures = [outcome for outcome in (*found.values(), curves) if isinstance(outcome, str)]
    curves = [] if isinstance(curves, str) else curves
    print_table(rows, failures)
    minutes = (time.perf_counter() - started) / 60
    if not options.names and not options.quick:
        write_page(options.page, rows, failures, curves, minutes)
    elif options.write:
        write_section(options.page, " ".join(options.names), rows, failures, curves, minutes)
    elif curves:
        print(growth_table(curves, growth.LARGE_USUAL, None))
    return 0 if not failures and all(row.agree for row in rows) else 1


def run(name: str, quick: bool, started: float) -> Outcome:
    """One benchmark; if it fails, that must not take the others along."""
    try:
        rows: Outcome = import_module(f"speed.{name}").rows(quick=quick)
    except Exception as error:
        rows = f"{name}: {error}"
    report(name, started)
    return rows


def grow(changes: dict[str, tuple[int, ...]], started: float) -> Curves:
    """The curves of cost, in the same way."""
    try:
        curves: Curves = growth.curves(changes)
    except Exception as error:
        curves = f"growth: {error}"
    report("growth", started)
    return curves


def report(name: str, started: float) -> None:
    """Say how far the run is: seconds since its start, and CPU seconds of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{name} done after {time.perf_counter() - started:.0f} s, {used.ru_utime + used.ru_stime:.0f} CPU s",
        file=sys.stderr,
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
