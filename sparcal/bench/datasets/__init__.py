"""The benchmarks on disk: one loader per layout, records of their images, masks, and a check of a copy."""

from sparcal.bench.datasets.catalogue import DATASETS, list_categories, list_records
from sparcal.bench.datasets.check import CategoryCheck, CheckReport, CopyFinding, check_copy
from sparcal.bench.datasets.dataset import Counts, Dataset
from sparcal.bench.datasets.record import Record, read_mask

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
