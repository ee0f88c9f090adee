"""A benchmark as data: its name, layout, categories and published counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from sparcal.bench.datasets.record import Record


class Counts(NamedTuple):
    """Images per split."""

    train: int
    validation: int
    test_good: int
    test_bad: int


@dataclass(frozen=True, eq=False)
class Dataset:
    """A benchmark as data, with the function that reads one category of its layout.

    Args:
        title: its name in prose.
        remedy: what to do when no copy is found: who gives it out.
        home: the folder below a root that holds the benchmark.
        read: every record of one category, below its home.
        masks: glob patterns, below its home, of the files that are masks of a category.
        find: the categories that a copy holds, for layouts that do not fix them.
        published: counts per category, where they are known.
        words: what the images of a category show, where its name does not say it; for detectors that read.
        total: counts of distinct files over all categories, where only these are known.
    """

    name: str
    title: str
    remedy: str
    read: Callable[[Dataset, Path, str], list[Record]]
    masks: tuple[str, ...]
    categories: tuple[str, ...] = ()
    home: Callable[[Path], Path] = field(default=lambda root: root)
    find: Callable[[Dataset, Path], tuple[str, ...]] | None = None
    published: Mapping[str, Counts] = field(default_factory=dict)
    total: Counts | None = None
    words: Mapping[str, str] = field(default_factory=dict)

    def describe(self, category: str) -> str:
        """What the images of a category show, in words."""
        return self.words.get(category, category.replace("_", " "))
