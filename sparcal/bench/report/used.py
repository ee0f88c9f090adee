"""What each row of a run used: host, dataset, encoder and detector with its settings, from the rows themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sparcal.bench.report.table import CellValue, Line, Table
from sparcal.bench.run.row import ResultRow

_CAPTION = "What the rows used, as it was loaded: the encoder's id names its weights, the detector all its settings."


def used_table(rows: Sequence[ResultRow]) -> Table:
    """One line for each combination among the rows that were computed, and how many rows it has."""
    counts = Counter(
        (row["host"], row["dataset"], row["encoder_id"], row["detector"]) for row in rows if row["status"] == "done"
    )
    lines = tuple(
        Line((host, dataset), ((CellValue(encoder),), (CellValue(detector),), (CellValue(str(count)),)))
        for (host, dataset, encoder, detector), count in sorted(counts.items())
    )
    return Table("used", _CAPTION, ("Host", "Dataset"), (("Encoder",), ("Detector",), ("Rows",)), (("", lines),))
