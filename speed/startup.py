"""How long a user waits before anything happens: `import sparcal` and `sparcal --help`, beside `import anomalib.models`.

Whole processes, from start to end, with the interpreter's own start in them.
"""

from __future__ import annotations

import sys

from speed.measure import Goal, Row, measure_command


def rows(*, quick: bool = False) -> list[Row]:
    """The rows of the speed table."""
    repeats = 1 if quick else 7
    peer, _ = measure_command([sys.executable, "-W", "ignore", "-c", "import anomalib.models"], repeats=1)
    mine, names = measure_command([sys.executable, "-c", "import sparcal; print(dir(sparcal))"], repeats=repeats)
    helped, text = measure_command(
        [sys.executable, "-c", "from sparcal.cli import main; main(['--help'])"], repeats=repeats
    )
    return [
        Row(
            path="import sparcal",
            peer="import anomalib.models",
            ours=mine,
            theirs=peer,
            measured=mine.wall_s,
            goal=Goal(0.3, "in all", " s", at_most=True),
            agree="score_lot" in names,
            agreement="the public names are there",
        ),
        Row(
            path="sparcal --help",
            peer="import anomalib.models",
            ours=helped,
            theirs=peer,
            measured=helped.wall_s,
            goal=Goal(0.5, "in all", " s", at_most=True),
            agree="demo" in text and "hosts" in text,
            agreement="the commands are listed",
        ),
    ]
