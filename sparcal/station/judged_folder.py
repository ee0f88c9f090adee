"""What judging leaves in a folder: a line for each image, its float map, its overlay, then a table and a page.

    scores.jsonl     one line per image, written after the image's files: a line means that they are whole
    scores.csv       the same as a table, worst first
    maps/            native-size float32 maps, NumPy or TIFF
    overlays/        each map over its image, outlined where it exceeds the pixel threshold
    index.html       the worst parts, self-contained
    self-test.html   the planted defects that the lot was tested with, found and missed

Lines are appended as images are judged. A run that is cut short keeps what it has, and the next one goes on from there.
"""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sparcal.errors import ArtifactError, DataError
from sparcal.files.atomic import atomic_path, remove_left_behind, require_folder
from sparcal.files.full_disk import needs_room, require_free_room
from sparcal.files.names import disarmed, json_text, visible
from sparcal.imaging.decode import open_image
from sparcal.imaging.overlay import overlay
from sparcal.settings import one_of, switch
from sparcal.station.judge_facts import Judge
from sparcal.station.judged_page import Row, of_this_lot, write_page
from sparcal.station.judgement import Judgement

Maps = Literal["npy", "tiff", "none"]

JOURNAL = "scores.jsonl"
MAPS, OVERLAYS = "maps", "overlays"
LONGEST_STEM = (
    160  # bytes, of the 255 that file systems take; hash, suffix and the name while it is written come on top
)
_OWN = "the station's own reference"
COLUMNS = ("path", "score", "threshold", "verdict", "map", "overlay", "sha256", "reason", "lot")


@dataclass(frozen=True)
class Wanted:
    """Which files beside the tables are written for each image."""

    maps: Maps = "npy"
    overlays: bool = True

    def __post_init__(self) -> None:
        one_of(self.maps, "The kind of maps", get_args(Maps))
        switch(self.overlays, "Wanted.overlays")


class Results:
    """What lots said about images, in a folder; opening it again goes on where it stopped.

    Args:
        lot: the one that judges now; somebody who watches a folder may set another later.
        mixed: whether the folder may hold results of other lots and thresholds; each line names its own.
    """

    def __init__(self, folder: Path, lot: Judge, wanted: Wanted, *, mixed: bool = False) -> None:
        self.folder, self.lot, self.wanted = folder, lot, wanted
        require_folder(folder, "Judging")
        for place in (folder, folder / MAPS, folder / OVERLAYS):
            remove_left_behind(place)
        self.rows: dict[str, Row] = {row["path"]: row for row in _read_journal(folder / JOURNAL)}
        facts = lot.on_page()
        for row in self.rows.values():
            if not mixed and not of_this_lot(row, facts):
                raise DataError(
                    f"The folder {folder} holds results of {row['lot'] or _OWN} with threshold "
                    f"{row['threshold']:.6g}, got {facts.name or _OWN} with {facts.threshold:.6g}: give another "
                    "folder, or remove this one."
                )

    def holds(self, path: Path) -> bool:
        """Whether a file is one of the maps and overlays that are written here, and so no image to judge."""
        return any(path.absolute().is_relative_to((self.folder / kind).absolute()) for kind in (MAPS, OVERLAYS))

    def known(self) -> set[str]:
        """Hashes of what has been judged, also of what could not be."""
        return {row["sha256"] for row in self.rows.values() if row["sha256"] is not None}

    def require_room(self, paths: Sequence[Path]) -> None:
        """A FullDiskError if the maps of these images will not fit on the disk."""
        if self.wanted.maps == "none" or not paths:
            return
        try:
            width, height = open_image(paths[0]).size
        except DataError:  # it will be reported when its turn comes
            return
        what = f"Keeping the maps of {len(paths)} images"
        require_free_room(self.folder, 4 * width * height * len(paths), what, "keep no maps (--maps none)")

    def add(self, judgement: Judgement) -> Row:
        """Write one image's files, then its line."""
        with needs_room(self.folder):
            return self._add(judgement)

    def _add(self, judgement: Judgement) -> Row:
        row: Row = {**judgement.row(), "map": None, "overlay": None, "lot": self.lot.name}
        heat = judgement.heat()
        if heat is not None:
            stem = _file_stem(judgement)
            if self.wanted.maps != "none":
                row["map"] = str(self._write_map(heat, stem))
            if self.wanted.overlays:
                row["overlay"] = str(self._write_overlay(judgement, heat, stem))
        with (self.folder / JOURNAL).open("a", encoding="utf-8") as journal:
            journal.write(json_text(row) + "\n")
        self.rows[row["path"]] = row
        return row

    def finish(self) -> Path:
        """Write the table and the page; returns the page's path."""
        with needs_room(self.folder):
            return self._finish(worst_first(list(self.rows.values())))

    def _finish(self, rows: Sequence[Row]) -> Path:
        with (
            atomic_path(self.folder / "scores.csv") as temporary,
            temporary.open("w", newline="", encoding="utf-8") as stream,
        ):
            writer = csv.DictWriter(stream, COLUMNS, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(_cells(row) for row in rows)
        facts = self.lot.on_page()
        if facts.self_test_page is not None:
            with atomic_path(self.folder / facts.self_test_page.name) as temporary:
                shutil.copyfile(facts.self_test_page, temporary)
        return write_page(self.folder / "index.html", facts, rows)

    def _write_map(self, heat: NDArray[np.float32], stem: str) -> Path:
        target = self.folder / MAPS / f"{stem}.{self.wanted.maps}"
        with atomic_path(target) as temporary, temporary.open("wb") as stream:
            if self.wanted.maps == "tiff":
                Image.fromarray(heat).save(stream, format="TIFF")
            else:
                np.save(stream, heat, allow_pickle=False)
        return target

    def _write_overlay(self, judgement: Judgement, heat: NDArray[np.float32], stem: str) -> Path:
        target = self.folder / OVERLAYS / f"{stem}.jpg"
        drawn = outlined(judgement.photograph(heat.shape), heat, judgement.pixel_threshold)
        with atomic_path(target) as temporary:
            Image.fromarray(drawn).save(temporary, format="JPEG", quality=88)
        return target


def outlined(image: NDArray[np.uint8], heat: NDArray[np.float32], limit: float) -> NDArray[np.uint8]:
    """The map over the image, with a white line around what exceeds `limit`.

    Half the limit is the cold end of the colours and twice the limit the hot end, on every image alike.
    """
    scale = max(abs(limit), 1e-12)
    drawn = np.ascontiguousarray(overlay(image, heat, low=limit - 0.5 * scale, high=limit + scale, opacity=0.45))
    above = (heat > limit).astype(np.uint8)
    contours, _ = cv2.findContours(above, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    cv2.drawContours(drawn, contours, -1, (255, 255, 255), max(1, round(max(heat.shape) / 300)))
    return drawn


def worst_first(rows: Sequence[Row]) -> list[Row]:
    """What could not be judged, then by falling score."""
    return sorted(rows, key=lambda row: (row["verdict"] != "error", -(row["score"] or 0.0), row["path"]))


def _cells(row: Row) -> dict[str, object]:
    """A row for a spreadsheet: text in which everything can be seen, and nothing is run as a formula."""
    files = ("path", "map", "overlay")  # ./=1.png names the same file
    texts = {name: visible(value) for name, value in row.items() if isinstance(value, str)}
    paths = {name: f"./{texts[name]}" for name in files if disarmed(texts.get(name, "")) != texts.get(name, "")}
    return {**row, **{name: disarmed(text) for name, text in texts.items()}, **paths}


def _file_stem(judgement: Judgement) -> str:
    """The image's name as far as it fits, and its content's hash: names that look alike get files of their own."""
    name = visible(judgement.path.stem).encode()[:LONGEST_STEM].decode(errors="ignore")
    return f"{name}-{(judgement.sha256 or '')[:12]}"


def _read_journal(path: Path) -> list[dict[str, Any]]:
    """Every line; a last one that a kill cut short is dropped from the file. A damaged one hides nothing: it is refused."""
    if not path.exists():
        return []
    if not path.is_file():  # a pipe would be waited for, without end
        raise ArtifactError(f"{path} was expected to be a file of lines, got something else: choose another folder.")
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    rows = [_read_line(line, path, number) for number, line in enumerate(content[:whole].split(b"\n")[:-1], start=1)]
    if whole < len(content):
        with path.open("r+b") as journal:
            journal.truncate(whole)
    return rows


def _read_line(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError:
        row = None
    if not isinstance(row, dict) or not {*COLUMNS} <= row.keys():
        raise ArtifactError(
            f"Line {number} of {path} was expected to be what was said about an image, got something else: put the file "
            "back as it was, give another folder, or remove this one."
        )
    return row
