"""The features that one encoder gives for one category, and which image each belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparcal.bench.datasets import Record
from sparcal.imaging.preprocess import Geometry
from sparcal.types import Features


@dataclass(frozen=True, eq=False)
class CategoryFeatures:
    """The features that one encoder gives for one category."""

    reference: Features | None
    reference_records: tuple[Record, ...]
    test: Features
    test_records: tuple[Record, ...]
    geometries: list[Geometry]

    def take(self, records: Sequence[Record]) -> Features:
        """The features of some of its images: training images first, each group in the order of `records`."""
        train = {record: i for i, record in enumerate(self.reference_records)}
        train_rows = [train[record] for record in records if record in train]
        test_rows = self.positions([record for record in records if record not in train])
        parts = [self.test[test_rows]] if test_rows or not train_rows else []
        if train_rows:
            assert self.reference is not None
            parts.insert(0, self.reference[train_rows])
        return Features.cat(parts) if len(parts) > 1 else parts[0]

    def positions(self, records: Sequence[Record]) -> list[int]:
        """The row of each test image among the features, in the order of `records`."""
        rows = {record: i for i, record in enumerate(self.test_records)}
        return [rows[record] for record in records]
