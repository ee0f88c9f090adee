"""MVTec AD 2 (Heckler-Kram et al., 2026): one scene under several lightings, of which training shows only the regular one.

    <category>/train/good/NNN_regular.png
               validation/good/NNN_regular.png
               test_public/{good,bad}/NNN_<lighting>.png
               test_public/ground_truth/bad/NNN_<lighting>_mask.png

The two private test sets have no labels and are not read. Scene 007 of good and 007 of bad are different objects.
"""

from __future__ import annotations

import re
from pathlib import Path

from sparcal.bench.datasets.dataset import Counts, Dataset
from sparcal.bench.datasets.listing import pair_masks, required_images
from sparcal.bench.datasets.record import Record, Split
from sparcal.errors import DataError

_NAME = re.compile(r"(?P<scene>\d{3})_(?P<lighting>.+)\.png")  # the lighting may hold an underscore: shift_1
_SPLITS: tuple[tuple[str, Split], ...] = (
    ("train/good", "train"),
    ("validation/good", "validation"),
    ("test_public/good", "test"),
    ("test_public/bad", "test"),
)


def _read(dataset: Dataset, home: Path, category: str) -> list[Record]:
    records = []
    for place, split in _SPLITS:
        images = required_images(dataset, home / category / place)
        masks: list[Path | None] = [None] * len(images)
        label = int(place.endswith("bad"))
        if label:
            masks = pair_masks(images, home / category / "test_public" / "ground_truth" / "bad", endings=("_mask",))
        for image, mask in zip(images, masks, strict=True):
            scene, lighting = _parse(image)
            records.append(Record(category, split, label, lighting, f"{place}/{scene}", image, mask))
    return records


def _parse(image: Path) -> tuple[str, str]:
    match = _NAME.fullmatch(image.name)
    if match is None:
        raise DataError(
            f"{image} must be named like 007_shift_1.png, scene and lighting, as in MVTec AD 2, got {image.name}: "
            "move what does not belong to the benchmark out of its folders."
        )
    return match["scene"], match["lighting"]


_PUBLISHED = {
    "can": Counts(412, 46, 72, 90),
    "fabric": Counts(387, 43, 66, 90),
    "fruit_jelly": Counts(263, 37, 20, 60),
    "rice": Counts(313, 35, 42, 90),
    "sheet_metal": Counts(137, 19, 24, 90),
    "vial": Counts(291, 41, 35, 105),
    "wallplugs": Counts(293, 33, 60, 90),
    "walnuts": Counts(432, 48, 60, 90),
}

MVTEC_AD_2 = Dataset(
    name="mvtec-ad-2",
    title="MVTec AD 2",
    remedy="get it from MVTec's download page, mvtec.com/company/research/datasets/mvtec-ad-2",
    read=_read,
    masks=("{category}/test_public/ground_truth/**/*",),
    categories=tuple(_PUBLISHED),
    published=_PUBLISHED,
)
