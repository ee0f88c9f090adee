"""What the suite's kills, stops, races, damaged files, wrong places and full disks come to, counted: runs them and writes a page.

    python -m speed.studies.reliability [--slow] [--chapters Kills Damage] [--work DIR] [--write docs/explanation/reliability.md]

Runs the tests of `speed.studies.reliability_sheets` through pytest, file by file, and counts what was tried and how it
ended. Without --slow, about ten minutes on one core; the rows of slow tests then say that they were not run. DIR keeps the result of each file, and a
second call goes on from there. Leaves with 1 where anything failed. Needs the environment of the tests: sparcal[dev].
"""

from __future__ import annotations

import argparse
import datetime
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from speed.page import machine, markdown
from speed.studies.reliability_sheets import CHAPTERS, SHEETS, Sheet

ROOT = Path(__file__).parents[2]
COMMAND = "python -m speed.studies.reliability --slow --write docs/explanation/reliability.md"
INTRODUCTION = f"""# Reliability

What happens to a station whose process is killed or stopped, whose files are damaged, whose paths lead elsewhere, whose disk runs
full, and to which two people write at once. Nothing on this page is a claim: it is what tests of the suite tried, and how often. This command runs them and writes the page:

<!-- not run: takes half an hour, and writes this page -->
```bash
{COMMAND}
```

A row in which anything failed would say FAILED, and the command would leave with 1.
"""
MATRIX = """### Every file, every damage, every command

How many of the commands that were tried refused in sentences, and after the plus sign how many answered exactly as before, because
they do not need the file. An answer counts as the same when verdicts, scores, thresholds and counts are.
"""


@dataclass(frozen=True)
class Case:
    """One case of a test: what it told, and "passed", "failed" or why it was skipped."""

    function: str
    ended: str
    told: Mapping[str, str]

    @property
    def tried(self) -> int:
        return int(self.told.get("tried", 1))


def run_file(file: str, functions: Sequence[str], report: Path, *, slow: bool, root: Path = ROOT) -> None:
    """Run these tests of one file; pytest writes `report` in JUnit's format."""
    words = ["-m", "" if slow else "not slow", "-p", "no:cacheprovider", f"--junitxml={report}"]
    words += ["-o", "junit_family=xunit1"]  # the newer one has no place for what a test tells
    tests = [f"{file}::{function}" for function in functions]
    ran = subprocess.run([sys.executable, "-m", "pytest", *words, *tests], cwd=root, stdout=sys.stderr, check=False)
    if ran.returncode not in (0, 1, 5) or not report.exists():  # 5: all were slow
        report.unlink(missing_ok=True)
        raise SystemExit(f"pytest could not run {file}, it left with {ran.returncode}: see what it printed.")


def read_report(report: Path) -> list[Case]:
    """The cases of a file that `run_file` made."""
    return [_case(element) for element in ElementTree.parse(report).iter("testcase")]


def _case(element: ElementTree.Element) -> Case:
    told = {one.get("name", ""): one.get("value", "") for one in element.iter("property")}
    skipped = element.find("skipped")
    ended = "passed" if skipped is None else skipped.get("message", "skipped")
    if element.find("failure") is not None or element.find("error") is not None:
        ended = "failed"
    return Case(element.get("name", "").partition("[")[0], ended, told)


def result(cases: Sequence[Case], *, slow: bool) -> tuple[str, str]:
    """How often something was tried, and how it ended, in words."""
    if not cases:
        return "0", "FAILED: the test is not there" if slow else "not run: slow"
    reasons = {case.ended for case in cases} - {"passed", "failed"}
    ran = [case for case in cases if case.ended in ("passed", "failed")]
    failed = sum(case.ended == "failed" for case in ran)
    told = Counter(case.told["ended"] for case in ran if case.ended == "passed" and "ended" in case.told)
    parts = [f"FAILED in {failed} of {len(ran)} cases"] if failed else ["held"] if ran else []
    parts += [f"{words} ({count})" if len(ran) > 1 else words for words, count in told.most_common()]
    parts += [f"{len(cases) - len(ran)} not run: {reason}" for reason in sorted(reasons)]
    return str(sum(case.tried for case in ran)), "; ".join(parts)


def chapter(title: str, cases: Mapping[Sheet, Sequence[Case]], *, slow: bool) -> str:
    """One table: a row for each sheet of a chapter."""
    sheets = [sheet for sheet in cases if sheet.chapter == title]
    lines = [("what was done", sheets[0].unit, "what must hold", "result", "test")]
    for sheet in sheets:
        tried, ended = result(cases[sheet], slow=slow)
        lines.append((sheet.done, tried, sheet.holds, ended, f"`{sheet.function}` in {sheet.file}"))
    return f"## {title}\n\n{markdown(lines)}\n"


def matrix(cases: Sequence[Case]) -> str:
    """Kinds of file by damages: how many commands refused + how many answered as before."""
    known = {(c.told["kind"], c.told["damage"], c.told["command"]): c for c in cases if "command" in c.told}
    kinds, damages, commands = (list(dict.fromkeys(key[i] for key in known)) for i in range(3))

    def cell(kind: str, damage: str) -> str:
        found = [known[kind, damage, command] for command in commands if (kind, damage, command) in known]
        failed = sum(case.ended == "failed" for case in found)
        ended = Counter(case.told.get("ended") for case in found)
        return f"{ended['refused']} + {ended['as before']}" + (f", FAILED {failed}" if failed else "")

    lines = [("file", *damages), *((kind, *(cell(kind, damage) for damage in damages)) for kind in kinds)]
    return f"{MATRIX}\n{markdown(lines)}\n\nCommands: {', '.join(f'`{command}`' for command in commands)}.\n"


def page(cases: Mapping[Sheet, Sequence[Case]], *, slow: bool) -> str:
    """The whole page."""
    every = [case for found in cases.values() for case in found]
    failed, passed = (sum(case.ended == ended for case in every) for ended in ("failed", "passed"))
    told = f"Run of {datetime.date.today():%Y-%m-%d}: {passed} cases held, {failed} failed. On:\n\n{machine()}"
    parts = [INTRODUCTION, told]
    for title in CHAPTERS:
        if any(sheet.chapter == title for sheet in cases):
            parts.append(chapter(title, cases, slow=slow))
        if title == "Damage" and any("command" in case.told for case in every):
            parts.append(matrix(every))
    return "\n".join(parts)


def measure(sheets: Sequence[Sheet], work: Path, *, slow: bool, root: Path = ROOT) -> dict[Sheet, list[Case]]:
    """Run every file that has no report in `work` yet; the cases of each sheet."""
    reports: dict[str, list[Case]] = {}
    for file in dict.fromkeys(sheet.file for sheet in sheets):
        report = work / f"{file.replace('/', '.')}{'.slow' if slow else ''}.xml"
        if not report.exists():
            run_file(file, [sheet.function for sheet in sheets if sheet.file == file], report, slow=slow, root=root)
        reports[file] = read_report(report)
    return {sheet: [case for case in reports[sheet.file] if case.function == sheet.function] for sheet in sheets}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slow", action="store_true", help="the slow tests as well")
    parser.add_argument("--chapters", nargs="+", default=list(CHAPTERS), choices=CHAPTERS)
    parser.add_argument("--work", type=Path, help="folder that keeps the result of each file")
    parser.add_argument("--write", type=Path, help="page to write; without it, it is printed")
    asked = parser.parse_args()
    sheets = [sheet for sheet in SHEETS if sheet.chapter in asked.chapters]
    with tempfile.TemporaryDirectory(prefix="sparcal-reliability-") as passing:
        work = asked.work or Path(passing)
        work.mkdir(parents=True, exist_ok=True)
        cases = measure(sheets, work.resolve(), slow=asked.slow)
    text = page(cases, slow=asked.slow)
    if asked.write:
        asked.write.write_text(text, encoding="utf-8")
    else:
        print(text)
    raise SystemExit(1 if "FAILED" in text.replace(INTRODUCTION, "") else 0)


if __name__ == "__main__":
    main()
