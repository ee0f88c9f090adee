"""What `sparcal score` leaves behind: tables for machines, overlays and one self-contained page for people.

Results are appended image by image, so that a run that is cut short keeps what it has judged and the next one goes on
from there. The page is written at the end, worst part first.
"""

from __future__ import annotations

import base64
import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sparcal.artifacts import atomic_path
from sparcal.errors import DataError
from sparcal.images import open_image
from sparcal.lot import Judgement, Lot
from sparcal.maps import overlay

Row = dict[str, Any]

COLUMNS = ("path", "score", "threshold", "verdict", "map", "sha256", "reason")
JOURNAL = "scores.jsonl"
SHOWN = 200  # parts on the page; the tables have all
THUMBNAIL = 320


@dataclass(frozen=True)
class Wanted:
    """Which files beside the tables are written for each image."""

    overlays: bool = True
    maps: bool = False


class Results:
    """The results of one lot in a folder; opening it again goes on where it stopped."""

    def __init__(self, folder: Path, lot: Lot, wanted: Wanted) -> None:
        self.folder, self.lot, self.wanted = folder, lot, wanted
        folder.mkdir(parents=True, exist_ok=True)
        self.rows: list[Row] = _read_journal(folder / JOURNAL)
        strangers = [row for row in self.rows if (row["lot"], row["threshold"]) != (lot.name, lot.threshold.value)]
        if strangers:
            raise DataError(
                f"The folder {folder} holds results of {strangers[0]['lot'] or 'no lot'} under another threshold: "
                "give another --out, or remove it."
            )

    def known(self) -> set[str]:
        """Paths that have been judged."""
        return {row["path"] for row in self.rows if row["verdict"] != "error"}

    def add(self, judgement: Judgement) -> Row:
        """Write one image's files, then its line in the journal: a line means that its files are whole."""
        number = len(self.rows)
        row = {**judgement.row(), "map": None, "overlay": None, "lot": self.lot.name}
        heat = judgement.heat()
        stem = f"{number:05d}-{judgement.path.stem[:60]}"
        if heat is not None and self.wanted.maps:
            row["map"] = f"maps/{stem}.tiff"
            with atomic_path(self.folder / row["map"]) as temporary:
                Image.fromarray(heat).save(temporary, format="TIFF")
        if heat is not None and self.wanted.overlays:
            row["overlay"] = f"overlays/{stem}.jpg"
            with atomic_path(self.folder / row["overlay"]) as temporary:
                Image.fromarray(self._overlay(judgement, heat)).save(temporary, format="JPEG", quality=85)
        with (self.folder / JOURNAL).open("a", encoding="utf-8") as journal:
            journal.write(json.dumps(row, ensure_ascii=False) + "\n")
        self.rows.append(row)
        return row

    def finish(self) -> Path:
        """Write the table and the page; returns the page's path."""
        with (
            atomic_path(self.folder / "scores.csv") as temporary,
            temporary.open("w", newline="", encoding="utf-8") as f,
        ):
            writer = csv.DictWriter(f, COLUMNS, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(worst_first(self.rows))
        page = self.folder / "index.html"
        with atomic_path(page) as temporary:
            temporary.write_text(self._page(), encoding="utf-8")
        return page

    def _overlay(self, judgement: Judgement, heat: NDArray[np.float32]) -> NDArray[np.uint8]:
        """The map over the image; half the pixel threshold is the bottom of the scale, twice it the top."""
        image = np.asarray(open_image(judgement.path), np.uint8)
        limit = judgement.pixel_threshold
        return overlay(image, heat, low=0.5 * limit, high=2.0 * limit, opacity=0.5)

    def _page(self) -> str:
        rows = worst_first(self.rows)
        counts = {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in ("fail", "pass", "error")}
        template = Template(files("sparcal").joinpath("templates/scores.html").read_text(encoding="utf-8"))
        return template.substitute(
            title=escape(self.lot.title),
            fail=counts["fail"],
            passed=counts["pass"],
            error=counts["error"],
            threshold=f"{self.lot.threshold.value:.4g}",
            sentence=escape(self.lot.threshold.sentence),
            note=f"The {SHOWN} worst of {len(rows)} are shown; scores.csv has all." if len(rows) > SHOWN else "",
            cards="".join(self._card(row) for row in rows[:SHOWN]),
            made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        )

    def _card(self, row: Row) -> str:
        name = escape(Path(row["path"]).name)
        if row["verdict"] == "error":
            return f"<article class='error'><h2>{name}</h2><p>{escape(row['reason'] or '')}</p></article>"
        pictures = "".join(f"<img loading='lazy' alt='{what}' src='{uri}'>" for what, uri in self._pictures(row))
        share = min(100.0, 50.0 * row["score"] / max(row["threshold"], 1e-12))
        return (
            f"<article class='{row['verdict']}'><div class='pictures'>{pictures}</div>"
            f"<h2><b>{row['verdict'].upper()}</b> {name}</h2>"
            f"<div class='bar' role='img' aria-label='score {row['score']:.4g}, threshold {row['threshold']:.4g}'>"
            f"<svg viewBox='0 0 100 4' preserveAspectRatio='none'><rect class='fill' width='{share:.1f}' height='4'/>"
            f"<rect class='limit' x='49.6' width='0.8' height='4'/></svg></div>"
            f"<p>score {row['score']:.4g}</p></article>"
        )

    def _pictures(self, row: Row) -> Iterable[tuple[str, str]]:
        sources = [("part", Path(row["path"]))]
        if row["overlay"]:
            sources.append(("heat map", self.folder / row["overlay"]))
        for what, path in sources:
            try:
                yield what, _thumbnail(path)
            except DataError:  # the image has gone since it was judged; the numbers stand without it
                continue


def worst_first(rows: Sequence[Row]) -> list[Row]:
    """Parts that could not be judged, then by falling score."""
    return sorted(rows, key=lambda row: (row["verdict"] != "error", -(row["score"] or 0.0), row["path"]))


def _thumbnail(path: Path) -> str:
    image = open_image(path)
    image.thumbnail((THUMBNAIL, THUMBNAIL))
    buffer = BytesIO()
    image.save(buffer, format="JPEG", quality=80)
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def _read_journal(path: Path) -> list[Row]:
    """Every whole line; a last line that was cut short by a kill is dropped from the file."""
    if not path.exists():
        return []
    rows: list[Row] = []
    whole = 0
    for line in path.read_bytes().splitlines(keepends=True):
        try:
            rows.append(json.loads(line))
        except ValueError:
            break
        if not line.endswith(b"\n"):
            rows.pop()
            break
        whole += len(line)
    with path.open("r+b") as journal:
        journal.truncate(whole)
    return rows
