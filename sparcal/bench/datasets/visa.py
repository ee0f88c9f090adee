"""VisA (Zou et al., 2022) with its official one-class split, in either of its two layouts.

As it is given out, the split is a table:

    split_csv/1cls.csv                   object, split, label, image, mask
    <object>/Data/Images/{Normal,Anomaly}/*.JPG
    <object>/Data/Masks/Anomaly/*.png    class indices: almost black to the eye

After the authors' own re-organisation it is the folder tree of `mvtec_like`, with the masks under the image's stem.
"""

from __future__ import annotations

import csv
from pathlib import Path

from sparcal.bench.datasets import mvtec_like
from sparcal.bench.datasets.dataset import Counts, Dataset
from sparcal.bench.datasets.listing import wrong_layout
from sparcal.bench.datasets.record import Record, Split
from sparcal.errors import DataError

_TABLE = Path("split_csv", "1cls.csv")
_COLUMNS = ("object", "split", "label", "image", "mask")
_SPLITS: dict[str, Split] = {"train": "train", "test": "test"}
_LABELS = {"normal": 0, "anomaly": 1}


def _home(root: Path) -> Path:
    return root / "1cls" if (root / "1cls").is_dir() and not (root / _TABLE).is_file() else root


def _read(dataset: Dataset, home: Path, category: str) -> list[Record]:
    if not (home / _TABLE).is_file():
        if mvtec_like.is_category(home / category):
            return mvtec_like.read_category(dataset, home / category, category)
        raise wrong_layout(dataset, home / _TABLE, f"{category}/train/good or the table")
    records = _read_table(home, category)
    if not {("train", 0), ("test", 0), ("test", 1)} <= {(record.split, record.label) for record in records}:
        raise DataError(
            f"{home / _TABLE} must list train normals, test normals and test anomalies of {category}, "
            f"got {len(records)} rows of it: {dataset.remedy}."
        )
    return sorted(records, key=lambda record: (record.split != "train", record.label, record.image.as_posix()))


def _read_table(home: Path, category: str) -> list[Record]:
    path, records = home / _TABLE, []
    with path.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.DictReader(stream)
        if not set(_COLUMNS) <= set(reader.fieldnames or ()):
            raise DataError(
                f"{path} must have the columns {', '.join(_COLUMNS)}, got {', '.join(reader.fieldnames or ['none'])}: "
                "take VisA's own 1cls.csv."
            )
        for line in reader:
            if line["object"] != category:
                continue
            split, label = _SPLITS.get(line["split"]), _LABELS.get(line["label"])
            if split is None or label is None or not line["image"]:
                raise DataError(
                    f"{path} line {reader.line_num} must give split train or test, label normal or anomaly, and an "
                    f"image, got {line['split']}, {line['label']} and {line['image']!r}: take VisA's own 1cls.csv."
                )
            mask = home / line["mask"] if label and line["mask"] else None
            records.append(Record(category, split, label, "", None, home / line["image"], mask))
    return records


_PUBLISHED = {
    "candle": Counts(900, 0, 100, 100),
    "capsules": Counts(542, 0, 60, 100),
    "cashew": Counts(450, 0, 50, 100),
    "chewinggum": Counts(453, 0, 50, 100),
    "fryum": Counts(450, 0, 50, 100),
    "macaroni1": Counts(900, 0, 100, 100),
    "macaroni2": Counts(900, 0, 100, 100),
    "pcb1": Counts(904, 0, 100, 100),
    "pcb2": Counts(901, 0, 100, 100),
    "pcb3": Counts(905, 0, 101, 100),
    "pcb4": Counts(904, 0, 101, 100),
    "pipe_fryum": Counts(450, 0, 50, 100),
}

VISA = Dataset(
    name="visa",
    title="VisA",
    remedy="get it from the authors of VisA, github.com/amazon-science/spot-diff",
    home=_home,
    read=_read,
    masks=("{category}/Data/Masks/**/*", "{category}/" + mvtec_like.MASKS),
    categories=tuple(_PUBLISHED),
    published=_PUBLISHED,
)
