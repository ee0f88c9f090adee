"""How often the shift alarm is wrong, and how soon it is right, by product and kind of change.

    python -m speed.studies.shift_alarm [--photographs DIR] [--products bottle cubes plate] [--runs 20] [--seed 1] [--work DIR]

A few hundred photographs of each product are made and encoded once (`speed.studies.shift_sights`): good parts, the same under
other lamps, dimmed, moved, out of focus, and defective ones. In every run a monitor gets 16 good parts, as a station keeps
them, or 8, as a lot has them, all drawn anew; it then takes a stream that is drawn with replacement from the photographs of
the other good parts, and from those of one change or of defects. Streams are drawn, so good parts come in no order: what a
line does of itself over a day is not in here, but for the rows "in the order of the files", which take a camera's own.
"""

from __future__ import annotations

import argparse
import copy
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from sparcal.calibration.sight import PartReading, read
from sparcal.encoders import load_encoder
from sparcal.files.atomic import atomic_path
from sparcal.rendering.parts import PRODUCTS
from sparcal.station.monitor import ShiftAlarm, monitor_from
from speed.studies.shift_sights import Seen, seen

KEPT, LOT = 16, 8  # good parts that a station's own reference and a lot know
QUIET, BEFORE, AFTER, BURST, SOMETIMES = 1000, 200, 100, 15, 0.05
SPOILT = {"defects": "defects", "large": "large defects", "half": "parts spoilt by half"}


@dataclass(frozen=True)
class Outcome:
    """One stream.

    Args:
        delay: parts from the change to the alarm; None where there was none.
        early: whether the alarm came before the change.
    """

    delay: int | None
    early: bool = False


class Line:
    """One draw of known good parts, and streams of the others."""

    def __init__(self, shown: Seen, known: int, rng: np.random.Generator) -> None:
        parts = rng.permutation(max(shown.shows) + 1)[:known].tolist()
        first = {part: number for number, part in reversed(list(enumerate(shown.shows)))}
        known_sights = [shown.groups["good"][first[part]] for part in parts]
        self._monitor, self._rng = monitor_from(known_sights, shown.native), rng
        expected = self._monitor.expected
        self._read = {
            name: [read(one, expected) for one in group] for name, group in shown.groups.items() if name != "good"
        }
        others = [i for i, part in enumerate(shown.shows) if part not in set(parts)]
        self._read["good"] = [read(shown.groups["good"][i], expected) for i in others]

    def draw(self, name: str, count: int) -> list[PartReading]:
        """Parts of a group, at random."""
        group = self._read[name]
        return [group[i] for i in self._rng.integers(len(group), size=count)]

    def mixed(self, name: str, count: int) -> list[PartReading]:
        """Good parts with some of a group among them."""
        some, good = self.draw(name, count), self.draw("good", count)
        return [a if self._rng.random() < SOMETIMES else b for a, b in zip(some, good, strict=True)]

    def outcome(self, before: Sequence[PartReading], after: Sequence[PartReading]) -> Outcome:
        """What a new monitor makes of a stream."""
        monitor = copy.deepcopy(self._monitor)  # it knows the good parts and has taken none
        for reading in (*before, *after):
            shift: ShiftAlarm | None = monitor.take(reading)
            if shift is not None:
                return Outcome(shift.last - len(before) + 1, early=shift.last < len(before))
        return Outcome(None)


def outcomes(shown: Seen, runs: int, seed: int) -> dict[str, list[Outcome]]:
    """Every stream of one product, `runs` times; the names of the rows."""
    found: dict[str, list[Outcome]] = {}
    changes = sorted({_title(name) for name in shown.groups} - {"good", "in order", *SPOILT})

    def add(row: str, outcome: Outcome) -> None:
        found.setdefault(row, []).append(outcome)

    for run in range(runs):
        rng = np.random.default_rng([seed, 5, run])
        station, lot = Line(shown, KEPT, rng), Line(shown, LOT, rng)
        add(f"{QUIET:,} good parts", station.outcome((), station.draw("good", QUIET)))
        add(f"{QUIET:,} good parts, a lot of {LOT}", lot.outcome((), lot.draw("good", QUIET)))
        for name, kind in ((name, kind) for name, kind in SPOILT.items() if name in shown.groups):
            usual = station.draw("good", BEFORE)
            after = (*station.draw(name, BURST), *station.draw("good", AFTER))
            add(f"{BURST} {kind} in a row", station.outcome(usual, after))
            add(f"5 % {kind} for {BEFORE} parts", station.outcome(usual, station.mixed(name, BEFORE)))
        for title in changes:
            members = [name for name in shown.groups if _title(name) == title]
            name = members[run % len(members)]
            add(
                f"{title}, after {BEFORE} parts",
                station.outcome(station.draw("good", BEFORE), station.draw(name, AFTER)),
            )
            add(f"{title}, at once, a lot of {LOT}", lot.outcome((), lot.draw(name, AFTER)))
    if "in order" in shown.groups:
        found["good parts in the order of the files"] = [in_order(shown)]
    return found


def in_order(shown: Seen) -> Outcome:
    """A camera's own photographs, none made up, as they follow each other; the first ones are known."""
    group = shown.groups["in order"]
    monitor = monitor_from(group[:KEPT], shown.native)
    shifts = [monitor.take(read(one, monitor.expected)) for one in group[KEPT:]]
    return Outcome(next((shift.last + 1 for shift in shifts if shift is not None), None))


def cell(each: list[Outcome]) -> str:
    """How often there was an alarm, and after how many parts: half of the times, and at most."""
    delays = sorted(one.delay for one in each if one.delay is not None and not one.early)
    early = sum(one.early for one in each)
    told = f"{len(delays)} of {len(each)}" + (f", {early} before the change" if early else "")
    return told + (f": {np.median(delays):g} / {delays[-1]}" if delays else "")


def table(found: dict[str, dict[str, list[Outcome]]]) -> str:
    """A row for every stream, a column for every product."""
    streams = list(dict.fromkeys(row for each in found.values() for row in each))
    lines = [f"| stream | {' | '.join(found)} |", "|---" * (1 + len(found)) + "|"]
    for row in streams:
        cells = [cell(each[row]) if row in each else "" for each in found.values()]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    return "\n".join(lines)


def kept_outcomes(path: Path, make: Callable[[], dict[str, list[Outcome]]]) -> dict[str, list[Outcome]]:
    """What an earlier run has kept, or what is made now."""
    if not path.exists():
        made = {row: [asdict(one) for one in each] for row, each in make().items()}
        with atomic_path(path) as kept:
            kept.write_text(json.dumps(made))
    return {row: [Outcome(**one) for one in each] for row, each in json.loads(path.read_text()).items()}


def _title(name: str) -> str:
    """Lamps and directions of one kind are one row."""
    if name == "later":
        return "four days later"
    stem, _, number = name.rpartition(" ")
    return ("another lamp" if stem == "lamp" else stem) if number.isdecimal() else name


def main() -> None:
    """Print the table."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photographs", type=Path, help="a folder with bottle and dobot_cubes")
    parser.add_argument("--products", nargs="+", default=["bottle", "cubes", *PRODUCTS])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1, help="0 is what the alarm was tuned on")
    parser.add_argument(
        "--work", type=Path, help="a folder that keeps what was encoded and found; the next run goes on there"
    )
    asked = parser.parse_args()
    torch.set_num_threads(1)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        encoder, work = load_encoder("bundled"), asked.work or Path(folder)
        for product in asked.products:
            if product not in PRODUCTS and asked.photographs is None:
                continue

            def make(product: str = product) -> dict[str, list[Outcome]]:
                shown = seen(product, asked.photographs, asked.seed, encoder, work)
                return outcomes(shown, asked.runs, asked.seed)

            found[product] = kept_outcomes(work / f"{product}-{asked.seed}-{asked.runs}.json", make)
    print(table(found))


if __name__ == "__main__":
    main()
