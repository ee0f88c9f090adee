"""The features of one category by one encoder, and which image they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparcal.bench.datasets import Record
from sparcal.imaging.preprocess import Geometry
from sparcal.types import Features


@dataclass(frozen=True, eq=False)
class CategoryFeatures:
    """Features of one category by one encoder."""

    reference: Features | None
    reference_records: tuple[Record, ...]
    test: Features
    test_records: tuple[Record, ...]
    geometries: list[Geometry]

    def take(self, records: Sequence[Record]) -> Features:
        """The features of some of its images: training images first, each group in the order of `records`."""
        train = {record: i for i, record in enumerate(self.reference_records)}
        learned = [train[record] for record in records if record in train]
        shown = self.positions([record for record in records if record not in train])
        parts = [self.test[shown]] if shown or not learned else []
        if learned:
            assert self.reference is not None
            parts.insert(0, self.reference[learned])
        return Features.cat(parts) if len(parts) > 1 else parts[0]

    def positions(self, records: Sequence[Record]) -> list[int]:
        """Where test images stand, in the order of `records`."""
        place = {record: i for i, record in enumerate(self.test_records)}
        return [place[record] for record in records]
