"""The benchmarks on disk: one loader per layout, records of their images, masks, and a check of a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparcal.bench.datasets.catalogue import list_categories, list_records
from sparcal.bench.datasets.check import CategoryCheck, CheckReport, CopyFinding, check_copy
from sparcal.bench.datasets.dataset import Counts, Dataset
from sparcal.bench.datasets.record import Record, read_mask

if TYPE_CHECKING:
    from sparcal.bench.datasets.catalogue import DATASETS as DATASETS

__all__ = [
    "DATASETS",
    "CategoryCheck",
    "CheckReport",
    "CopyFinding",
    "Counts",
    "Dataset",
    "Record",
    "check_copy",
    "list_categories",
    "list_records",
    "read_mask",
]


def __getattr__(name: str) -> object:
    if name != "DATASETS":
        raise AttributeError(
            f"module 'sparcal.bench.datasets' has no attribute {name!r}; it offers {', '.join(__all__)}"
        )
    from sparcal.bench.datasets import catalogue

    return catalogue.DATASETS
