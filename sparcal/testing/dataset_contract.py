"""What must hold for every dataset: one list of checks, run over a copy of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import get_args

from sparcal.bench.datasets.dataset import Dataset
from sparcal.bench.datasets.record import Record, Split, read_mask
from sparcal.imaging.decode import open_image
from sparcal.testing.expectations import must_hold


@dataclass(frozen=True)
class DatasetCase:
    """A dataset, and a folder that holds a copy of it, which may be small."""

    dataset: Dataset
    root: Path

    def categories(self) -> tuple[str, ...]:
        """Those that the copy holds, or that the dataset fixes."""
        home = self.dataset.home(self.root)
        return self.dataset.find(self.dataset, home) if self.dataset.find else self.dataset.categories

    def records(self, category: str) -> list[Record]:
        """Every image of a category."""
        return self.dataset.read(self.dataset, self.dataset.home(self.root), category)


def dataset_checks(case: DatasetCase) -> dict[str, Callable[[], None]]:
    """The checks by name, each ready to be called."""
    return {check.__name__.removeprefix("_"): partial(check, case) for check in _CHECKS}


def _each(case: DatasetCase) -> list[tuple[str, list[Record]]]:
    return [(category, case.records(category)) for category in case.categories()]


def _every_category_can_be_trained_and_tested(case: DatasetCase) -> None:
    must_hold(bool(case.categories()), "the copy has at least one category")
    for category, records in _each(case):
        kinds = {(record.split, record.label) for record in records}
        for split, label, words in (("train", 0, "good training"), ("test", 0, "good test"), ("test", 1, "bad test")):
            must_hold((split, label) in kinds, f"{category} has {words} images")


def _only_good_parts_are_trained_on(case: DatasetCase) -> None:
    for category, records in _each(case):
        must_hold({record.category for record in records} == {category}, f"records of {category} say so")
        must_hold({record.split for record in records} <= set(get_args(Split)), f"splits are {get_args(Split)}")
        must_hold({record.label for record in records} <= {0, 1}, "labels are 0, normal, or 1, anomalous")
        bad = [record for record in records if record.label == 1 and record.split != "test"]
        must_hold(
            not bad, f"only normal images of {category} are outside its test split, got {[r.image for r in bad[:1]]}"
        )


def _listing_again_gives_the_same_order(case: DatasetCase) -> None:
    order = {"train": 0, "validation": 1, "test": 2}
    for category, records in _each(case):
        must_hold(records == case.records(category), f"listing {category} again gives the same")
        fixed = sorted(records, key=lambda r: (order[r.split], r.label, r.image.as_posix()))
        must_hold(records == fixed, f"{category} comes as train, validation, test; normal, anomalous; then by path")


def _images_are_there_once_and_readable(case: DatasetCase) -> None:
    for category, records in _each(case):
        paths = [record.image for record in records]
        must_hold(len(set(paths)) == len(paths), f"no image of {category} is listed twice")
        for path in paths:
            must_hold(path.is_file() and not path.name.startswith("."), f"{path} is an image")
            open_image(path)


def _masks_mark_what_is_anomalous(case: DatasetCase) -> None:
    for _, records in _each(case):
        for record in records:
            if record.label == 0:
                must_hold(record.mask is None, f"the normal image {record.image} has no mask")
            elif record.mask is not None:
                image = open_image(record.image)
                marked = bool(read_mask(record, (image.height, image.width)).any())
                must_hold(marked, f"the mask of {record.image} marks at least one pixel")


_CHECKS: tuple[Callable[[DatasetCase], None], ...] = (
    _every_category_can_be_trained_and_tested,
    _only_good_parts_are_trained_on,
    _listing_again_gives_the_same_order,
    _images_are_there_once_and_readable,
    _masks_mark_what_is_anomalous,
)
