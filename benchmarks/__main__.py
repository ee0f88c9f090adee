"""Run the benchmarks, print one table, and write docs/speed.md if all were run.

    python -m benchmarks            all, in full
    python -m benchmarks sparc      some, by name; nothing is written
    python -m benchmarks --quick    small sizes, to see that everything runs; nothing is written

Exit code 1 if outputs disagree or a benchmark does not finish; a goal that is missed is marked, and no error.
"""

from __future__ import annotations

import argparse
import sys
import time
from importlib import import_module
from pathlib import Path

from benchmarks import growth
from benchmarks.measure import ROOT, Row
from benchmarks.page import print_table, write_page

NAMES = ("startup", "sparc", "neighbours", "padim", "musc", "aupro", "whole_lot", "export", "cache")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "speed.md", help="where the page goes")
    options = parser.parse_args()
    if unknown := set(options.names) - set(NAMES):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; choose from {', '.join(NAMES)}")
    started = time.perf_counter()
    rows: list[Row] = []
    failures: list[str] = []
    for name in options.names or NAMES:
        began = time.perf_counter()
        try:
            rows += import_module(f"benchmarks.{name}").rows(quick=options.quick)
        except Exception as error:  # one benchmark that fails must not take the others along
            failures.append(f"{name}: {error}")
        print(f"{name}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    curves = []
    if not options.names:
        began = time.perf_counter()
        curves = growth.curves(quick=options.quick)
        print(f"growth: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    print_table(rows, failures)
    if not options.names and not options.quick:
        write_page(options.page, rows, failures, curves, (time.perf_counter() - started) / 60)
    return 0 if not failures and all(row.agree for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
