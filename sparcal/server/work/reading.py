"""Images from the store: decoded once each, shown as thumbnails, and put under the names that people know."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from sparcal.errors import DataError
from sparcal.imaging.decode import FORMATS, open_image
from sparcal.server.data.database import Database
from sparcal.server.data.store import SHOWN_AS_IS, Store, file_name
from sparcal.server.sentences import sentence_of
from sparcal.server.work import pictures
from sparcal.server.work.reporting import Reporter


@dataclass(frozen=True)
class Reading:
    """The store's images as the worker reads them."""

    database: Database
    store: Store

    def read_new(self, report: Reporter) -> str:
        """Decode what has arrived, and make its thumbnails."""
        done = 0
        while waiting := self._unread():
            total = done + len(waiting)
            for sha in waiting:
                report(done, total)
                self.usable(sha)
                done += 1
        report(done, done)
        return f"{done} image{'' if done == 1 else 's'} read." if done else "Nothing was left to read."

    def usable(self, sha: str) -> bool:
        """Whether an image can be used; it is read to find out if nobody has yet."""
        state = self._state(sha)
        return self.image(sha) is not None if state == "new" else state == "ready"

    def image(self, sha: str) -> Image.Image | None:
        """The decoded image, None if it cannot be used; pictures of a new one are made on the way."""
        state = self._state(sha)
        if state not in {"new", "ready"}:
            return None
        try:
            if state == "new":
                require_one_page(self.store.image(sha))
            image = open_image(self.store.image(sha))
            if state == "new":
                pictures.write_thumb(image, self.store.picture(sha, "thumb"))
                if self._row(sha)["kind"] not in SHOWN_AS_IS:
                    pictures.write_view(image, self.store.picture(sha, "view"))
        except DataError as error:
            sentence = sentence_of(error, {str(self.store.image(sha)): self._row(sha)["name"]})
            self._note(sha, "refused", None, sentence)
            return None
        self._note(sha, "ready", image.size, None)
        return image

    def named(self, place: str, shas: list[str]) -> dict[Path, str]:
        """Images under the names that people know, because stations, lots and sentences keep file names."""
        folder = self.store.folder / "named" / place
        folder.mkdir(parents=True, exist_ok=True)
        links: dict[Path, str] = {}
        for sha in shas:
            name = file_name(self.name(sha))
            path = folder / name
            if path in links:
                path = folder / f"{sha[:8]} {name}"
            path.unlink(missing_ok=True)
            try:
                os.link(self.store.image(sha), path)
            except OSError:  # not every file system has links
                shutil.copyfile(self.store.image(sha), path)
            links[path] = sha
        return links

    def problem(self, sha: str) -> str | None:
        """Why an image cannot be used."""
        problem: str | None = self._row(sha)["problem"]
        return problem

    def name(self, sha: str) -> str:
        """What people call an image."""
        return str(self._row(sha)["name"])

    def _state(self, sha: str) -> str:
        return str(self._row(sha)["state"])

    def _row(self, sha: str) -> dict[str, Any]:
        with self.database.read() as connection:
            return dict(connection.execute("SELECT * FROM images WHERE sha = ?", (sha,)).fetchone())

    def _unread(self) -> list[str]:
        with self.database.read() as connection:
            return [
                row["sha"] for row in connection.execute("SELECT sha FROM images WHERE state = 'new' ORDER BY rowid")
            ]

    def _note(self, sha: str, state: str, size: tuple[int, int] | None, problem: str | None) -> None:
        width, height = size or (None, None)
        with self.database.write() as connection:
            connection.execute(
                "UPDATE images SET state = ?, width = ?, height = ?, problem = ? WHERE sha = ? AND state = 'new'",
                (state, width, height, problem, sha),
            )


def require_one_page(path: Path) -> None:
    """A DataError for a file with several pages or frames: nobody could see that only the first was judged."""
    try:
        with Image.open(path, formats=FORMATS) as opened:
            count = getattr(opened, "n_frames", 1)
    except Exception:  # a damaged file: whoever decodes it says what is wrong
        return
    if count > 1:
        raise DataError(f"{path} must hold one picture, got {count} pages or frames: send each as a file of its own.")
