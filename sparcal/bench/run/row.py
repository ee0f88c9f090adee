"""The row of a unit: what it measured, and everything needed to trace it; one Parquet file each."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from sparcal.bench.metrics import METRICS
from sparcal.bench.plan.protocol import CalibrationDraw, protocol_of
from sparcal.bench.plan.unit import Unit
from sparcal.bench.plan.variant import Variant
from sparcal.bench.run.sources import code_digest
from sparcal.bench.run.workplace import Workplace
from sparcal.errors import MissingExtraError
from sparcal.files.atomic import atomic_path

ResultRow = dict[str, Any]

_TEXT = (
    "unit",
    "status",  # done, or undefined
    "reason",  # why it is undefined
    "dataset",
    "category",
    "host",
    "correction",
    "variant",
    "setting",  # the part of the variant that changes the base too
    "encoder",
    "encoder_id",
    "detector",
    "weights",
    "prompts",
    "evaluation",  # hash of the evaluated images' bytes
    "precision",
    "device",
    "sparcal",
    "code",  # hash of the sources that can change a score
    "torch",
    "timm",
    "python",
)
_WHOLE = ("k", "seed", "protocol", "evaluated_good", "evaluated_bad", "extracted", "threads")
_NUMBERS = (
    *(f"{side}_{name}" for side in ("base", "corrected") for name in METRICS),  # 0 to 100
    "extract_s",
    "base_s",
    "correct_s",
    "measure_s",
    "cpu_s",  # of the whole unit, all threads
)
ROW_COLUMNS = (*_TEXT, *_WHOLE, *_NUMBERS, "calibration", "diagnostics")


def new_row(unit: Unit, draw: CalibrationDraw, root: Path, workplace: Workplace) -> ResultRow:
    """A row with all that is known before anything is measured."""
    return {
        **dict.fromkeys(ROW_COLUMNS),
        **{name: getattr(unit, name) for name in ("dataset", "category", "host", "correction", "variant", "setting")},
        **{name: getattr(unit, name) for name in ("k", "seed", "encoder", "weights", "prompts")},
        **{name: getattr(workplace, name) for name in ("precision", "device", "threads")},
        "unit": unit.hash,
        "status": "done",
        "reason": "",
        "protocol": protocol_of(Variant.parse(unit.variant)),
        "calibration": [record.image.relative_to(root).as_posix() for record in draw.calibration],
        "evaluated_good": sum(record.label == 0 for record in draw.evaluated),
        "evaluated_bad": sum(record.label == 1 for record in draw.evaluated),
        "extracted": 0,
        "code": code_digest(),
        "python": platform.python_version(),
        **{name: _installed(name) for name in ("sparcal", "torch", "timm")},
    }


def write_row(row: ResultRow, path: Path) -> None:
    """Write one row as a Parquet file, whole or not at all."""
    write_rows([row], path)


def write_rows(rows: Sequence[ResultRow], path: Path) -> None:
    """Write rows as one Parquet file, whole or not at all; a number that is NaN becomes missing."""
    arrow = require_arrow()
    import pyarrow.parquet as pq

    table = arrow.Table.from_pylist([_plain(row) for row in rows], schema=_schema())
    with atomic_path(path) as temporary:
        pq.write_table(table, temporary)


def _plain(row: ResultRow) -> ResultRow:
    diagnostics = row["diagnostics"]
    nan = {name: None for name in _NUMBERS if row[name] is not None and row[name] != row[name]}
    return {**row, **nan, "diagnostics": None if diagnostics is None else sorted(diagnostics.items())}


def read_rows(paths: list[Path]) -> list[ResultRow]:
    """The rows of Parquet files that `write_row` wrote, in the order of `paths`."""
    require_arrow()
    import pyarrow.parquet as pq

    rows = [row for path in paths for row in pq.read_table(path, schema=_schema()).to_pylist()]
    for row in rows:
        row["diagnostics"] = None if row["diagnostics"] is None else dict(row["diagnostics"])
    return rows


def _schema() -> Any:
    arrow = require_arrow()
    return arrow.schema(
        [
            *((name, arrow.string()) for name in _TEXT),
            *((name, arrow.int64()) for name in _WHOLE),
            *((name, arrow.float64()) for name in _NUMBERS),
            ("calibration", arrow.list_(arrow.string())),
            ("diagnostics", arrow.map_(arrow.string(), arrow.float64())),
        ]
    )


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def require_arrow() -> Any:
    """The module pyarrow, without which no row can be kept."""
    try:
        import pyarrow
    except ImportError as error:
        raise MissingExtraError(
            "The benchmark needs the package pyarrow, which is not installed: run pip install 'sparcal[bench]'."
        ) from error
    return pyarrow
