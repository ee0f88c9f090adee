"""Whether a copy of a benchmark is complete and can be read, file by file."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from sparcal.bench.datasets.catalogue import list_categories, open_copy
from sparcal.bench.datasets.dataset import Counts, Dataset
from sparcal.bench.datasets.listing import is_junk, junk_files
from sparcal.bench.datasets.record import Record, read_mask
from sparcal.errors import DataError
from sparcal.imaging.decode import open_image
from sparcal.imaging.find import SUFFIXES

Problem = Literal[
    "unusable category",
    "unreadable image",
    "unusable mask",
    "image without mask",
    "mask without image",
]
Remark = Literal["no masks", "empty mask", "junk file", "other format"]

_MAGIC = {
    b"\x89PNG": ".png",
    b"\xff\xd8\xff": ".jpg",
    b"BM": ".bmp",
    b"II*\0": ".tif",
    b"MM\0*": ".tif",
    b"RIFF": ".webp",
}
_SAME = {".jpeg": ".jpg", ".tiff": ".tif"}


@dataclass(frozen=True)
class CopyFinding:
    """One thing that a check noticed; a Problem spoils the copy, a Remark does not."""

    kind: Problem | Remark
    category: str
    path: Path
    text: str

    @property
    def is_problem(self) -> bool:
        """Whether results on this copy would fail or differ."""
        return self.kind in get_args(Problem)


@dataclass(frozen=True)
class CategoryCheck:
    """Counts of one category, or of all files together; `published` is None where nobody published them."""

    category: str
    found: Counts
    published: Counts | None
    masks: int
    problems: int

    @property
    def ok(self) -> bool:
        """Whether the category is complete and free of problems."""
        return self.problems == 0 and self.published in (None, self.found)


@dataclass(frozen=True)
class CheckReport:
    """What `check_copy` found."""

    dataset: str
    root: Path
    categories: tuple[CategoryCheck, ...]
    findings: tuple[CopyFinding, ...]

    @property
    def ok(self) -> bool:
        """Whether results on this copy can be compared with published ones."""
        return all(row.ok for row in self.categories)

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Header and rows for people; a count that is not the published one shows both."""
        header = ("category", "train", "validation", "test good", "test bad", "masks", "problems", "ok")
        rows = [
            (
                row.category,
                *(_cell(row, split) for split in Counts._fields),
                str(row.masks),
                str(row.problems),
                "yes" if row.ok else "no",
            )
            for row in self.categories
        ]
        return header, rows

    def to_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return {
            "dataset": self.dataset,
            "root": str(self.root),
            "ok": self.ok,
            "rows": [
                {
                    "category": row.category,
                    "found": row.found._asdict(),
                    "published": row.published._asdict() if row.published else None,
                    "masks": row.masks,
                    "problems": row.problems,
                    "ok": row.ok,
                }
                for row in self.categories
            ],
            "findings": [asdict(one) | {"path": str(one.path), "problem": one.is_problem} for one in self.findings],
        }


def check_copy(
    dataset: str, root: Path | str, *, workers: int | None = None, progress: Callable[[int, int], None] | None = None
) -> CheckReport:
    """Compares a copy with the published counts and decodes every image and mask once.

    Args:
        workers: reading threads; by default one per core, at most 8.
        progress: called with (files done, files in all) after each file.
    """
    spec, home = open_copy(dataset, root)
    records, findings = _read_categories(spec, home, list_categories(dataset, root))
    distinct = _distinct(records)
    findings += _inspect_all(distinct, workers, progress)
    names = list(dict.fromkeys(record.category for record in records))
    findings += [one for name in names for one in _pairing(spec, home, name, records)]
    findings += [
        CopyFinding("junk file", "", path, "left by an operating system; ignored") for path in junk_files(Path(root))
    ]
    rows = [_count(spec, name, records, findings) for name in list_categories(dataset, root)]
    if spec.total is not None:
        problems = sum(one.is_problem for one in findings)
        rows.append(CategoryCheck("total", _counts(distinct), spec.total, _masks(distinct), problems))
    return CheckReport(spec.name, Path(root), tuple(rows), tuple(findings))


def _read_categories(spec: Dataset, home: Path, names: Iterable[str]) -> tuple[list[Record], list[CopyFinding]]:
    records: list[Record] = []
    findings: list[CopyFinding] = []
    first: DataError | None = None
    for name in names:
        try:
            records += spec.read(spec, home, name)
        except DataError as error:
            first = first or error
            findings.append(CopyFinding("unusable category", name, home, str(error)))
    if not records and first is not None:
        raise first
    return records, findings


def _distinct(records: list[Record]) -> list[Record]:
    """The first record of every file."""
    by_file: dict[Path, Record] = {}
    for record in records:
        by_file.setdefault(record.image, record)
    return list(by_file.values())


def _inspect_all(
    records: list[Record], workers: int | None, progress: Callable[[int, int], None] | None
) -> list[CopyFinding]:
    findings: list[CopyFinding] = []
    pool = ThreadPoolExecutor(workers or min(os.cpu_count() or 1, 8))
    try:
        for done, of_one in enumerate(pool.map(_inspect, records), start=1):
            findings += of_one
            if progress is not None:
                progress(done, len(records))
    finally:
        pool.shutdown(cancel_futures=True)  # an interrupted check must not first decode what is still queued
    return findings


def _inspect(record: Record) -> list[CopyFinding]:
    """Decodes one image and its mask."""
    findings: list[CopyFinding] = []
    try:
        image = open_image(record.image)
    except DataError as error:
        return [CopyFinding("unreadable image", record.category, record.image, str(error))]
    content = _content(record.image)
    if content != _suffix(record.image):
        text = f"named {record.image.suffix}, holds {content}; opened by content"
        findings.append(CopyFinding("other format", record.category, record.image, text))
    if record.mask is None:
        return findings
    try:
        mask = read_mask(record, (image.height, image.width))
    except DataError as error:
        return [*findings, CopyFinding("unusable mask", record.category, record.mask, str(error))]
    if not mask.any():
        findings.append(CopyFinding("empty mask", record.category, record.mask, "marks no pixel of an anomalous image"))
    return findings


def _pairing(spec: Dataset, home: Path, category: str, records: list[Record]) -> list[CopyFinding]:
    mine = [record for record in records if record.category == category and record.label == 1]
    used = {record.mask for record in mine if record.mask}
    if not used and spec.find is not None:  # one's own images may come without masks; a benchmark may not
        text = "no anomalous image has a mask: AU-PRO cannot be computed"
        return [CopyFinding("no masks", category, mine[0].image.parent, text)]
    alone = [record.image for record in mine if record.mask is None]
    there = {
        path
        for pattern in spec.masks
        for path in home.glob(pattern.format(category=glob.escape(category)))
        if _is_image(path)
    }
    return [
        *(CopyFinding("image without mask", category, path, "anomalous, but no mask belongs to it") for path in alone),
        *(CopyFinding("mask without image", category, path, "no image belongs to it") for path in sorted(there - used)),
    ]


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and not is_junk(path.name) and path.is_file()


def _count(spec: Dataset, category: str, records: list[Record], findings: list[CopyFinding]) -> CategoryCheck:
    mine = [record for record in records if record.category == category]
    files = {record.image for record in mine}  # AeBAD-S trains all its categories on the same files
    problems = sum(one.is_problem and (one.category == category or one.path in files) for one in findings)
    return CategoryCheck(category, _counts(mine), spec.published.get(category), _masks(mine), problems)


def _counts(records: list[Record]) -> Counts:
    counted = Counter((record.split, record.label) for record in records)
    return Counts(counted["train", 0], counted["validation", 0], counted["test", 0], counted["test", 1])


def _masks(records: list[Record]) -> int:
    return sum(record.mask is not None for record in records)


def _cell(row: CategoryCheck, split: str) -> str:
    count = getattr(row.found, split)
    published = count if row.published is None else getattr(row.published, split)
    return f"{count}" if count == published else f"{count} of {published}"


def _content(path: Path) -> str | None:
    with path.open("rb") as stream:
        head = stream.read(4)
    return next((suffix for magic, suffix in _MAGIC.items() if head.startswith(magic)), None)


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    return _SAME.get(suffix, suffix)
