"""The image files of a folder, without the litter of operating systems, and the masks that belong to them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from sparcal.bench.datasets.dataset import Dataset
from sparcal.errors import DataError
from sparcal.imaging.find import SUFFIXES

_JUNK_NAMES = frozenset({".DS_Store", "Thumbs.db", "desktop.ini", "__MACOSX"})
_SHOWN = 6


def is_junk(name: str) -> bool:
    """Whether an operating system, not the benchmark, made this file or folder."""
    return name.startswith("._") or name in _JUNK_NAMES


def image_files(folder: Path) -> list[Path]:
    """The images that lie directly in a folder, by name; none if there is no such folder."""
    if not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if _is_image(entry.name) and entry.is_file()]
    return [folder / name for name in sorted(names)]


def subfolders(folder: Path) -> list[Path]:
    """The folders that lie directly in a folder, by name; none if there is no such folder."""
    if not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir()]
    return [folder / name for name in sorted(names) if not is_junk(name)]


def junk_files(root: Path) -> Iterator[Path]:
    """Everything below a root that an operating system left there; a junk folder counts once."""
    for folder, names, files in os.walk(root):
        names.sort()
        yield from (Path(folder, name) for name in sorted([*names, *files]) if is_junk(name))
        names[:] = [name for name in names if not is_junk(name)]


def required_images(dataset: Dataset, folder: Path) -> list[Path]:
    """The images of a folder; refused where there are none, because the layout needs them."""
    images = image_files(folder)
    if not images:
        raise wrong_layout(dataset, folder, "images in")
    return images


def wrong_layout(dataset: Dataset, path: Path, expected: str) -> DataError:
    """The error for a path that the layout needs and the copy lacks; it tells what lies there instead."""
    near = path
    while not near.exists() and near != near.parent:
        near = near.parent
    if near.is_dir():
        names = sorted(entry.name for entry in near.iterdir() if not is_junk(entry.name))
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        holds = f"{', '.join(names[:_SHOWN])}{more}" if names else "nothing"
        got = f"a folder that holds {holds}" if near == path else f"only {near}, which holds {holds}"
    else:
        got = "a file"
    return DataError(f"{dataset.title} needs {expected} {path}, got {got}: point to its root, or {dataset.remedy}.")


def pair_masks(images: Sequence[Path], folder: Path, *, endings: tuple[str, ...]) -> list[Path | None]:
    """For each image the mask in `folder`: its stem and the first of `endings` that there is, with any image suffix."""
    masks = {mask.stem: mask for mask in image_files(folder)}
    return [next((masks[i.stem + end] for end in endings if i.stem + end in masks), None) for i in images]


def _is_image(name: str) -> bool:
    return not name.startswith(".") and os.path.splitext(name)[1].lower() in SUFFIXES
