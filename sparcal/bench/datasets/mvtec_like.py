"""The layout that MVTec AD made common, and the benchmarks that keep to it.

    <category>/train/good/*.png
               validation/good/*.png              not everywhere
               test/{good,<defect>,...}/*.png
               ground_truth/<defect>/*_mask.png   or the image's own name

MVTec AD: Bergmann et al., 2019. RAD: Cheng et al., 2024; its normal images are the same files under all four
categories, so that category averages are not independent.
"""

from __future__ import annotations

import os
from pathlib import Path

from sparcal.bench.datasets.dataset import Counts, Dataset
from sparcal.bench.datasets.listing import image_files, pair_masks, required_images, subfolders, wrong_layout
from sparcal.bench.datasets.record import Record, Split

MASKS = "ground_truth/**/*"


def read_category(dataset: Dataset, folder: Path, category: str) -> list[Record]:
    """Every record of one category that lies in `folder`."""
    records = _normals(category, "train", required_images(dataset, folder / "train" / "good"))
    records += _normals(category, "validation", image_files(folder / "validation" / "good"))
    records += _normals(category, "test", required_images(dataset, folder / "test" / "good"))
    defects = [defect for defect in subfolders(folder / "test") if defect.name != "good"]
    anomalous = [record for defect in defects for record in _anomalous(category, defect)]
    if not anomalous:
        raise wrong_layout(dataset, folder / "test", "at least one folder of anomalous images beside good in")
    return records + anomalous


def _normals(category: str, split: Split, images: list[Path]) -> list[Record]:
    return [Record(category, split, 0, "", None, image, None) for image in images]


def _anomalous(category: str, defect: Path) -> list[Record]:
    images = image_files(defect)
    truth = defect.parent.parent / "ground_truth" / defect.name
    masks = pair_masks(images, truth, endings=("_mask", ""))
    return [Record(category, "test", 1, "", None, image, mask) for image, mask in zip(images, masks, strict=True)]


def _read_below(dataset: Dataset, home: Path, category: str) -> list[Record]:
    return read_category(dataset, home / category, category)


def is_category(folder: Path) -> bool:
    """Whether a folder looks like one category of this layout."""
    return (folder / "train" / "good").is_dir()


def _find(dataset: Dataset, home: Path) -> tuple[str, ...]:
    if is_category(home):
        return (home.name,)
    names = tuple(folder.name for folder in subfolders(home) if is_category(folder))
    if not names:
        raise wrong_layout(dataset, home, "train/good, or folders that each hold train/good, in")
    return names


def _read_found(dataset: Dataset, home: Path, category: str) -> list[Record]:
    single = is_category(home) and category == home.name
    return read_category(dataset, home if single else home / category, category)


ANY_FOLDER = Dataset(
    name="folder",
    title="MVTec-like folder",
    remedy="arrange your own images like MVTec AD",
    home=lambda root: Path(os.path.abspath(root)),  # the root itself may name the category, and "." has no name
    read=_read_found,
    find=_find,
    masks=("{category}/" + MASKS, MASKS),
)

RAD = Dataset(
    name="rad",
    title="RAD",
    remedy="get it from the authors of RAD, github.com/hustCYQ/RAD-dataset",
    read=_read_below,
    masks=("{category}/" + MASKS,),
    categories=("bolt", "ribbon", "sponge", "tape"),
    # Categories are named after what is wrong with the one object that all of them show.
    words=dict.fromkeys(("bolt", "ribbon", "sponge", "tape"), "object"),
    published={
        name: Counts(213, 0, 73, bad) for name, bad in {"bolt": 327, "ribbon": 293, "sponge": 281, "tape": 323}.items()
    },
)

_MVTEC_AD = {
    "bottle": (209, 20, 63),
    "cable": (224, 58, 92),
    "capsule": (219, 23, 109),
    "carpet": (280, 28, 89),
    "grid": (264, 21, 57),
    "hazelnut": (391, 40, 70),
    "leather": (245, 32, 92),
    "metal_nut": (220, 22, 93),
    "pill": (267, 26, 141),
    "screw": (320, 41, 119),
    "tile": (230, 33, 84),
    "toothbrush": (60, 12, 30),
    "transistor": (213, 60, 40),
    "wood": (247, 19, 60),
    "zipper": (240, 32, 119),
}

MVTEC_AD = Dataset(
    name="mvtec-ad",
    title="MVTec AD",
    remedy="get it from MVTec's download page, mvtec.com/company/research/datasets/mvtec-ad",
    read=_read_below,
    masks=("{category}/" + MASKS,),
    categories=tuple(_MVTEC_AD),
    published={name: Counts(train, 0, good, bad) for name, (train, good, bad) in _MVTEC_AD.items()},
)
