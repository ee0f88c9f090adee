"""Small copies of the benchmarks in their real layouts, oddities included, filled with rendered images.

`write_tree` is all that a test needs. A tree carries the oddities that the loaders must live with (junk of operating
systems, JPEG bytes named .png, class-index masks, folders that are not read); `spoil` breaks one file.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from sparcal.bench.datasets import DATASETS, Counts

LIGHTINGS = ("regular", "overexposed", "underexposed", "shift_1", "shift_2", "shift_3", "shift_4")
BRIGHTNESS = dict(zip(LIGHTINGS, (1.0, 1.35, 0.6, 0.9, 0.8, 1.1, 0.7), strict=True)) | {
    "same": 1.0,
    "background": 0.8,
    "illumination": 0.55,
    "view": 1.15,
}
SMALL = Counts(train=4, validation=1, test_good=6, test_bad=3)
WITH_VALIDATION = {"mvtec-ad-2"}
TWO = {
    "mvtec-ad-2": ("can", "vial"),
    "aebad-s": ("background", "view"),
    "visa": ("candle", "pcb1"),
    "rad": ("bolt", "tape"),
    "mvtec-ad": ("bottle", "grid"),
    "folder": ("alpha", "beta"),
}  # categories of each benchmark


def expected_counts(dataset: str) -> Counts:
    """What a category of a small copy holds."""
    return SMALL if dataset in WITH_VALIDATION else SMALL._replace(validation=0)


@dataclass(frozen=True)
class Tree:
    """Where to write, how much, and of what size."""

    root: Path
    counts: Counts
    size: tuple[int, int]
    lightings: tuple[str, ...]


def write_tree(
    dataset: str,
    root: Path,
    *,
    per_split: Counts = SMALL,
    categories: Sequence[str] | None = None,
    size: tuple[int, int] = (48, 64),
    lightings: int = 2,
) -> Path:
    """Write a small copy of a benchmark and return its root.

    Args:
        per_split: images per category; AeBAD-S trains all its categories on one set of `train` images.
        categories: by default all of the benchmark; for `folder` alpha and beta.
        size: (H, W) of the first image of each folder; every second one is a little wider.
        lightings: of each MVTec AD 2 scene; 6 test normals under 2 lightings are 3 scenes.
    """
    names = tuple(categories or DATASETS[dataset].categories or ("alpha", "beta"))
    root.mkdir(parents=True, exist_ok=True)
    WRITERS[dataset](Tree(root, per_split, size, LIGHTINGS[:lightings]), names)
    (root / ".DS_Store").write_bytes(b"\0\0\0\1Bud1")
    return root


def spoil(image: Path) -> Path:
    """Cut a file in half, as a broken download does."""
    data = image.read_bytes()
    image.write_bytes(data[: len(data) // 2])
    return image


def render(size: tuple[int, int], *, seed: int, lighting: str, anomalous: bool) -> tuple[np.ndarray, np.ndarray]:
    """A disc on a lit table, (H, W, 3) uint8, and the mask of its defect: a dark spot that the seed places."""
    h, w = size
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:h, :w]
    centre = np.array([h, w]) / 2 + rng.uniform(-1, 1, 2)
    table = 60 + 40 * x / w
    disc = np.hypot(y - centre[0], x - centre[1]) < 0.35 * min(h, w)
    grey = np.where(disc, 150 + 20 * np.cos(y / 3), table) * BRIGHTNESS[lighting]
    mask = np.zeros(size, dtype=bool)
    if anomalous:
        spot = centre + rng.uniform(-0.2, 0.2, 2) * min(h, w)
        mask = np.hypot(y - spot[0], x - spot[1]) < 0.08 * min(h, w) + 1
        grey = np.where(mask, 20, grey)
    pixels = grey[..., None] * np.array([1.0, 0.95, 0.85]) + rng.normal(0, 2, (h, w, 3))
    return np.clip(pixels, 0, 255).astype(np.uint8), mask


def put(
    tree: Tree,
    image: Path,
    *,
    seed: int,
    mask: Path | None = None,
    lighting: str = "regular",
    grey: bool = False,
    mask_value: int = 255,
) -> None:
    """One image and, for an anomalous one, its mask. `seed` is the physical object: lightings of it differ only in light."""
    size = (tree.size[0], tree.size[1] + 8 * (seed % 2))
    pixels, marked = render(size, seed=seed, lighting=lighting, anomalous=mask is not None)
    image.parent.mkdir(parents=True, exist_ok=True)
    picture = Image.fromarray(pixels[..., 0] if grey else pixels)
    picture.save(image, format="PNG" if image.suffix == ".png" else "JPEG")
    if mask is not None:
        mask.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((marked * mask_value).astype(np.uint8)).save(mask)


def write_mvtec_ad_2(tree: Tree, categories: Sequence[str]) -> None:
    n = len(tree.lightings)
    for number, category in enumerate(categories):
        base, first = tree.root / category, 10_000 * number
        for place, count in (("train/good", tree.counts.train), ("validation/good", tree.counts.validation)):
            for i in range(count):
                put(tree, base / place / f"{i:03}_regular.png", seed=first + i + (500 if "val" in place else 0))
        for i in range(tree.counts.test_good):
            name = f"{i // n:03}_{tree.lightings[i % n]}"
            image = base / "test_public/good" / f"{name}.png"
            put(tree, image, seed=first + 1000 + i // n, lighting=tree.lightings[i % n])
        for i in range(tree.counts.test_bad):
            name = f"{i // n:03}_{tree.lightings[i % n]}"
            mask = base / "test_public/ground_truth/bad" / f"{name}_mask.png"
            image = base / "test_public/bad" / f"{name}.png"
            put(tree, image, seed=first + 2000 + i // n, mask=mask, lighting=tree.lightings[i % n])
        put(tree, base / "test_private/000_regular.png", seed=first + 3000)
        put(tree, base / "test_private_mixed/000_mixed.png", seed=first + 3000)


def write_aebad_s(tree: Tree, categories: Sequence[str]) -> None:
    """JPEG bytes under .png names, same-name masks, and the `._` twins of macOS, as in the archive."""
    base = tree.root / "AeBAD_S"
    written = []
    for i in range(tree.counts.train):
        domain = ("background", "illumination", "view")[i % 3]
        written.append(base / "train/good" / domain / f"IMG_{i:04}.png")
        put(tree, written[-1], seed=i, lighting=domain)
    for number, domain in enumerate(categories, start=1):
        for i in range(tree.counts.test_good):
            written.append(base / "test/good" / domain / f"IMG_{i:04}.png")
            put(tree, written[-1], seed=1000 * number + i, lighting=domain)
        for i in range(tree.counts.test_bad):
            place = Path(("ablation", "breakdown", "fracture", "groove")[i % 4], domain, f"IMG_{i:04}.png")
            written.append(base / "test" / place)
            mask = base / "ground_truth" / place
            put(tree, written[-1], seed=1000 * number + 500 + i, mask=mask, lighting=domain)
    for image in written:
        with Image.open(image) as picture:
            picture.load()
        picture.save(image, format="JPEG")
        (image.parent / f"._{image.name}").write_bytes(b"\0\5\26\7")
    (tree.root / "__MACOSX").mkdir(exist_ok=True)


def write_visa(tree: Tree, categories: Sequence[str]) -> None:
    rows = []
    for number, category in enumerate(categories):
        images, first = Path(category, "Data", "Images"), 10_000 * number
        for i in range(tree.counts.train + tree.counts.test_good):
            image = images / "Normal" / f"{i:04}.JPG"
            put(tree, tree.root / image, seed=first + i)
            split = "test" if i < tree.counts.test_good else "train"
            rows.append((category, split, "normal", image.as_posix(), ""))
        for i in range(tree.counts.test_bad):
            image, mask = images / "Anomaly" / f"{i:03}.JPG", Path(category, "Data", "Masks", "Anomaly", f"{i:03}.png")
            put(tree, tree.root / image, seed=first + 5000 + i, mask=tree.root / mask, mask_value=1 + i % 3)
            rows.append((category, "test", "anomaly", image.as_posix(), mask.as_posix()))
        (tree.root / category / "image_anno.csv").write_text("image,label,mask\n")
    (tree.root / "split_csv").mkdir(exist_ok=True)
    with (tree.root / "split_csv" / "1cls.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([("object", "split", "label", "image", "mask"), *rows])


def write_visa_reorganised(tree: Tree, categories: Sequence[str]) -> None:
    for number, category in enumerate(categories):
        write_category(
            tree, tree.root / "1cls" / category, first=10_000 * number, defects=("bad",), suffix=".JPG", mask_ending=""
        )


def write_rad(tree: Tree, categories: Sequence[str]) -> None:
    """The normal images are the same in all categories; half of the masks carry the image's own name."""
    for number, category in enumerate(categories):
        endings = ("_mask", "")[number % 2]
        write_category(
            tree,
            tree.root / category,
            first=0,
            bad_first=10_000 * (number + 1),
            defects=("defect",),
            mask_ending=endings,
        )


def write_mvtec_ad(tree: Tree, categories: Sequence[str]) -> None:
    for number, category in enumerate(categories):
        grey = category in ("grid", "screw", "zipper")
        write_category(tree, tree.root / category, first=10_000 * number, defects=("dent", "scratch"), grey=grey)
        (tree.root / category / "license.txt").write_text("CC BY-NC-SA 4.0\n")


def write_category(
    tree: Tree,
    base: Path,
    *,
    first: int,
    defects: Sequence[str],
    bad_first: int | None = None,
    suffix: str = ".png",
    mask_ending: str = "_mask",
    grey: bool = False,
) -> None:
    """One category in the layout of MVTec AD, which has no validation images."""
    for i in range(tree.counts.train):
        put(tree, base / "train/good" / f"{i:03}{suffix}", seed=first + i, grey=grey)
    for i in range(tree.counts.test_good):
        put(tree, base / "test/good" / f"{i:03}{suffix}", seed=first + 1000 + i, grey=grey)
    for i in range(tree.counts.test_bad):
        defect = defects[i % len(defects)]
        mask = base / "ground_truth" / defect / f"{i:03}{mask_ending}.png"
        seed = (first if bad_first is None else bad_first) + 2000 + i
        put(tree, base / "test" / defect / f"{i:03}{suffix}", seed=seed, mask=mask, grey=grey)


WRITERS: dict[str, Callable[[Tree, Sequence[str]], None]] = {
    "mvtec-ad-2": write_mvtec_ad_2,
    "aebad-s": write_aebad_s,
    "visa": write_visa,
    "rad": write_rad,
    "mvtec-ad": write_mvtec_ad,
    "folder": write_mvtec_ad,
}
