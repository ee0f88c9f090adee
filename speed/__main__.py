"""Run the benchmarks, print one table, and write docs/explanation/speed.md.

    python -m speed            those with a goal on the page, in full: ten minutes on two idle cores
    python -m speed sparc lot  some, by name, the longer ones too; nothing is written
    python -m speed --quick    small sizes, to see that everything runs; nothing is written

Exit code 1 if outputs disagree or a benchmark does not finish; a goal that is missed is marked, and no error.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from importlib import import_module
from pathlib import Path

from speed import growth
from speed.measure import ROOT, Row
from speed.page import print_table, write_page

PAGE = ("startup", "sparc", "neighbours", "padim", "musc", "aupro", "whole_lot")
LONGER = ("lot", "cache", "export")
NAMES = (*PAGE, *LONGER)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument(
        "--page", type=Path, default=ROOT / "docs" / "explanation" / "speed.md", help="where the page goes"
    )
    options = parser.parse_args()
    if unknown := set(options.names) - set(NAMES):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; choose from {', '.join(NAMES)}")
    started = time.perf_counter()
    rows: list[Row] = []
    failures: list[str] = []
    for name in options.names or PAGE:
        try:
            rows += import_module(f"speed.{name}").rows(quick=options.quick)
        except Exception as error:  # one benchmark that fails must not take the others along
            failures.append(f"{name}: {error}")
        report(name, started)
    curves = []
    if not options.names:
        curves = growth.curves(quick=options.quick)
        report("growth", started)
    print_table(rows, failures)
    if not options.names and not options.quick:
        write_page(options.page, rows, failures, curves, (time.perf_counter() - started) / 60)
    return 0 if not failures and all(row.agree for row in rows) else 1


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
