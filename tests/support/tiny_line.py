"""Folders as a line has them, filled with rendered parts of 96 pixels, for commands that read files."""

from __future__ import annotations

from PIL import Image

from sparcal.cli import run
from sparcal.rendering.parts import make_demo

SIZE = 96


def fill(root):
    """train/, normals/ and lot/ in a folder."""
    parts = make_demo(5, train=12, good=10, bad=6, shift="moved", size=SIZE)
    groups = {"train": parts.train, "normals": parts.lot_good[:6], "lot": parts.lot_good[6:] + parts.lot_bad}
    for folder, group in groups.items():
        (root / folder).mkdir()
        for part in group:
            Image.fromarray(part.image).save(root / folder / f"{part.name}.png")
    return root


def fit(root, *words):
    """The exit code of fitting a station on train/."""
    return run(
        ["fit", str(root / "train"), "--station", str(root / "station"), "--encoder", f"bundled?size={SIZE}", *words]
    )
