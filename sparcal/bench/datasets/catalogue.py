"""The benchmarks by name, and the records of a copy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sparcal.bench.datasets.aebad_s import AEBAD_S
from sparcal.bench.datasets.dataset import Dataset
from sparcal.bench.datasets.mvtec_ad_2 import MVTEC_AD_2
from sparcal.bench.datasets.mvtec_like import ANY_FOLDER, MVTEC_AD, RAD
from sparcal.bench.datasets.record import Record
from sparcal.bench.datasets.visa import VISA
from sparcal.errors import DataError
from sparcal.plugins import plugins
from sparcal.settings import file_path

if TYPE_CHECKING:
    DATASETS: dict[str, Dataset]

OWN_DATASETS = {dataset.name: dataset for dataset in (MVTEC_AD_2, AEBAD_S, VISA, RAD, MVTEC_AD, ANY_FOLDER)}


def __getattr__(name: str) -> object:
    """DATASETS, made when it is first used: a plug-in may import this module to describe itself."""
    if name != "DATASETS":
        raise AttributeError(f"module 'sparcal.bench.datasets.catalogue' has no attribute {name!r}")
    joined = plugins("sparcal.datasets", OWN_DATASETS, _accepted)
    made = OWN_DATASETS | {title: replace(dataset, name=title) for title, dataset in joined.items()}
    globals()[name] = made
    return made


def _accepted(entry: object) -> Dataset:
    if not isinstance(entry, Dataset):
        raise DataError(f"a {type(entry).__name__} instead of a Dataset")
    return entry


def list_records(dataset: str, root: Path | str, *, category: str | None = None) -> list[Record]:
    """Every image of a benchmark's copy, always in the same order; no file is opened.

    Order: categories as the benchmark names them; in each train, validation, test normals, test anomalies; then by path.

    Args:
        category: only this one; by default all must be there.
    """
    spec, home = open_copy(dataset, root)
    names = list_categories(dataset, root)
    if category is None:
        return [record for name in names for record in spec.read(spec, home, name)]
    if category not in names:
        raise DataError(f"unknown category {category!r} of {spec.title}; choose from {', '.join(names)}.")
    return spec.read(spec, home, category)


def list_categories(dataset: str, root: Path | str) -> tuple[str, ...]:
    """The categories of a benchmark; for `folder` those that the copy holds."""
    spec, home = open_copy(dataset, root)
    return spec.find(spec, home) if spec.find else spec.categories


def open_copy(dataset: str, root: Path | str) -> tuple[Dataset, Path]:
    """A benchmark by its name, and the folder that holds it below `root`."""
    from sparcal.bench.datasets.catalogue import DATASETS

    if dataset not in DATASETS:
        raise DataError(f"unknown dataset {dataset!r}; choose from {', '.join(DATASETS)}.")
    file_path(root, "The folder of a copy")
    spec, root = DATASETS[dataset], Path(root)
    if not root.is_dir():
        got = "a file" if root.exists() else "no such folder"
        raise DataError(f"{spec.title} needs a folder, got {got} at {root}: check the path, or {spec.remedy}.")
    return spec, spec.home(root)
