"""AeBAD-S (Zhang et al., 2023): blades under four domains; the paper takes each test domain as a category.

    AeBAD_S/train/good/{background,illumination,view}/IMG_*.png       one training set for all four
            test/{good,<defect>,...}/{same,background,illumination,view}/IMG_*.png
            ground_truth/<defect>/<domain>/<the image's own name>.png

The files end in .png and hold JPEG; the archive carries `._` files of macOS.
"""

from __future__ import annotations

from pathlib import Path

from sparcal.bench.datasets.dataset import Counts, Dataset
from sparcal.bench.datasets.listing import image_files, pair_masks, required_images, subfolders, wrong_layout
from sparcal.bench.datasets.record import Record


def _home(root: Path) -> Path:
    return root / "AeBAD_S" if (root / "AeBAD_S").is_dir() else root


def _read(dataset: Dataset, home: Path, category: str) -> list[Record]:
    training = [
        Record(category, "train", 0, domain.name, None, image, None)
        for domain in subfolders(home / "train" / "good")
        for image in image_files(domain)
    ]
    if not training:
        raise wrong_layout(dataset, home / "train" / "good", "folders of images, one per domain, in")
    good = required_images(dataset, home / "test" / "good" / category)
    records = training + [Record(category, "test", 0, category, None, image, None) for image in good]
    defects = [folder.name for folder in subfolders(home / "test") if folder.name != "good"]
    for defect in defects:
        images = image_files(home / "test" / defect / category)
        masks = pair_masks(images, home / "ground_truth" / defect / category, endings=("",))
        records += [
            Record(category, "test", 1, category, None, image, mask) for image, mask in zip(images, masks, strict=True)
        ]
    if records[-1].label == 0:
        raise wrong_layout(dataset, home / "test", f"at least one defect with anomalous images in {category} in")
    return records


_DOMAINS = ("background", "illumination", "same", "view")

AEBAD_S = Dataset(
    name="aebad-s",
    title="AeBAD-S",
    remedy="get it from the authors of AeBAD, github.com/zhangzilongc/MMR",
    home=_home,
    read=_read,
    masks=("ground_truth/*/{category}/*",),
    categories=_DOMAINS,
    words=dict.fromkeys(_DOMAINS, "blade"),  # a domain is no object
    total=Counts(521, 0, 490, 1149),  # per domain: not published
)
