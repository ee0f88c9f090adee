"""A benchmark that any machine can make: the demonstration parts, one category per kind of shift."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import get_args

from sparcal.errors import DataError
from sparcal.files.atomic import require_folder
from sparcal.files.hashing import words_digest
from sparcal.rendering.parts import SMALLEST, Shift, make_demo, write_demo
from sparcal.settings import seed_number, share, texts, whole_number

RENDERED = "rendered"
_STALE_S = 3600.0  # rendering takes a minute: what is this old was left by a process that was killed, here or elsewhere


@dataclass(frozen=True)
class Rendering:
    """What is rendered.

    Args:
        categories: kinds of shift, see `sparcal.rendering.parts.make_demo`.
        train, good, bad: parts of each category.
        size: edge of the images in pixels.
        strength: of the defects, above 0 up to 1.
    """

    categories: tuple[str, ...] = ("lights", "random", "moved", "none")
    train: int = 24
    good: int = 24
    bad: int = 20
    size: int = 256
    strength: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        texts(self.categories, "Rendering.categories")
        for name in ("train", "good", "bad", "size"):
            whole_number(getattr(self, name), f"Rendering.{name}")
        share(self.strength, "Rendering.strength")
        seed_number(self.seed, "Rendering.seed")
        unknown = [name for name in self.categories if name not in get_args(Shift)]
        if unknown or not self.categories:
            got = repr(unknown[0]) if unknown else "none"
            raise DataError(f"Rendered categories are {', '.join(get_args(Shift))}, got {got}: choose among them.")
        if min(self.train, self.good, self.bad) < 1 or self.size < SMALLEST:
            raise DataError(
                f"Rendering needs at least 1 part of each kind and {SMALLEST} pixels, got train={self.train}, "
                f"good={self.good}, bad={self.bad}, size={self.size}: raise them."
            )


def render_dataset(folder: Path, rendering: Rendering) -> Path:
    """The root of the rendered parts below `folder`, rendered now if they are not there yet."""
    words = [f"{name}={value}" for name, value in sorted(asdict(rendering).items())]
    root = folder / f"{RENDERED}-{words_digest(words)[:16]}"
    if root.is_dir():
        return root
    require_folder(folder, "Rendering")
    _sweep(folder)
    with tempfile.TemporaryDirectory(dir=folder, prefix=f".{RENDERED}-") as name:
        fresh = Path(name) / "parts"
        for number, category in enumerate(rendering.categories):
            demo = make_demo(
                1000 * rendering.seed + number,
                train=rendering.train,
                good=rendering.good,
                bad=rendering.bad,
                shift=category,  # type: ignore[arg-type]
                strength=rendering.strength,
                size=rendering.size,
            )
            write_demo(demo, fresh / category)
        try:
            os.rename(fresh, root)
        except OSError:  # another process has put the same parts there
            if not root.is_dir():
                raise
            shutil.rmtree(fresh)
    return root


def _sweep(folder: Path) -> None:
    for left in folder.glob(f".{RENDERED}-*"):
        if time.time() - left.stat().st_mtime > _STALE_S:
            shutil.rmtree(left, ignore_errors=True)
