"""Uploaded images and pictures made from them, under names that are content hashes: no name from a request is a path."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
import unicodedata
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from starlette.concurrency import run_in_threadpool

from sparcal.errors import DataError
from sparcal.server.refusals import TooLargeError
from sparcal.server.settings import Limits

PictureSize = Literal["thumb", "view"]
SHA = re.compile(r"^[0-9a-f]{64}$")
MEDIA = {
    "png": "image/png",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
    "bmp": "image/bmp",
    "tiff": "image/tiff",
}
SHOWN_AS_IS = frozenset({"png", "jpeg", "webp", "bmp"})  # browsers cannot show the rest
_NAME_LENGTH = 120
_FILE_NAME_BYTES = 200  # of the 255 that file systems allow; some are added where two names clash
_FLUSH = 2**20


@dataclass(frozen=True)
class Stored:
    """An image that has arrived, in a file that waits to be let in."""

    sha: str
    name: str
    bytes: int
    kind: str
    path: Path


@dataclass(frozen=True)
class Store:
    """The folder with images and pictures."""

    folder: Path
    limits: Limits

    def image(self, sha: str) -> Path:
        """Where the image with this hash is."""
        return self._place("images", sha)

    def picture(self, sha: str, what: PictureSize) -> Path:
        """Where the worker puts a picture of an image."""
        return self._place("pictures", sha).with_name(f"{sha}.{what}.webp")

    def heat(self, sha: str, lot_key: str) -> Path:
        """Where the heat map of an image under a lot is."""
        if not SHA.fullmatch(lot_key):
            raise DataError("A lot key must be a hash of 64 hexadecimal digits.")
        return self._place("pictures", sha).with_name(f"{sha}.{lot_key[:16]}.webp")

    async def receive(self, stream: AsyncIterator[bytes], *, name: str) -> Stored:
        """Write an upload to disk as it comes, never more than the limit; `retention.admit` lets it in."""
        await run_in_threadpool(self._incoming.mkdir, parents=True, exist_ok=True)
        digest, size, start, buffer = hashlib.sha256(), 0, b"", bytearray()
        with self._arriving() as out:
            async for chunk in stream:
                size += len(chunk)
                if size > self.limits.upload_bytes:
                    raise TooLargeError(
                        f"An image may have at most {self.limits.upload_bytes // 2**20} MB, got more: shrink it."
                    )
                start = start or bytes(chunk[:16])
                digest.update(chunk)
                buffer += chunk
                if len(buffer) >= _FLUSH:
                    await run_in_threadpool(out.write, bytes(buffer))
                    buffer.clear()
            await run_in_threadpool(out.write, bytes(buffer))
            out.flush()
            await run_in_threadpool(os.fsync, out.fileno())
            kind = sniff(start)
            if kind is None:
                raise DataError("An upload must be a PNG, JPEG, BMP, TIFF or WebP image, got something else.")
            return Stored(digest.hexdigest(), display_name(name), size, kind, Path(out.name))

    def copy(self, path: Path) -> Stored:
        """A copy of a file of the watched folder, refused like an upload would be."""
        self._incoming.mkdir(parents=True, exist_ok=True)
        digest, size, start = hashlib.sha256(), 0, b""
        with path.open("rb") as source, self._arriving() as out:
            while chunk := source.read(_FLUSH):
                size += len(chunk)
                if size > self.limits.upload_bytes:
                    raise TooLargeError(
                        f"An image may have at most {self.limits.upload_bytes // 2**20} MB, got {path.name}: shrink it."
                    )
                start = start or chunk[:16]
                digest.update(chunk)
                out.write(chunk)
            out.flush()
            os.fsync(out.fileno())
            kind = sniff(start)
            if kind is None:
                raise DataError(f"{path.name} must be a PNG, JPEG, BMP, TIFF or WebP image, got something else.")
            return Stored(digest.hexdigest(), display_name(path.name), size, kind, Path(out.name))

    def discard(self, sha: str) -> None:
        """Remove an image and every picture of it; what is gone already stays so."""
        for picture in self._place("pictures", sha).parent.glob(f"{sha}.*"):
            picture.unlink(missing_ok=True)
        self.image(sha).unlink(missing_ok=True)

    def held(self) -> set[str]:
        """Hashes of all that there are files of."""
        groups = [self.folder / "images", self.folder / "pictures"]
        names = (path.name[:64] for group in groups for path in group.glob("*/*"))
        return {name for name in names if SHA.fullmatch(name)}

    def sweep_incoming(self) -> None:
        """Remove uploads whose process died; what a living one is writing is locked, and stays."""
        for path in self._incoming.glob("*"):
            with suppress(OSError), path.open("rb") as left:
                fcntl.flock(left, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink(missing_ok=True)

    @property
    def _incoming(self) -> Path:
        return self.folder / "incoming"

    @contextmanager
    def _arriving(self) -> Iterator[BinaryIO]:
        """A new file, locked while it is written, and gone if that fails."""
        path = self._incoming / secrets.token_hex(16)
        try:
            with path.open("wb") as out:
                fcntl.flock(out, fcntl.LOCK_EX)
                yield out
        except BaseException:
            path.unlink(missing_ok=True)
            raise

    def _place(self, group: str, sha: str) -> Path:
        if not SHA.fullmatch(sha):
            raise DataError("An image is named by its hash of 64 hexadecimal digits.")
        return self.folder / group / sha[:2] / sha


def sniff(start: bytes) -> str | None:
    """The kind of image that a file's first bytes announce."""
    if start.startswith(b"\x89PNG\r\n\x1a\n"):
        return "png"
    if start.startswith(b"\xff\xd8\xff"):
        return "jpeg"
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "webp"
    if start.startswith(b"BM"):
        return "bmp"
    return "tiff" if start[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+") else None


def file_name(name: str) -> str:
    """A display name as a file's name: no more bytes than every file system takes, and never a folder."""
    stem, dot, suffix = name.rpartition(".")
    tail = dot + suffix if stem and len(suffix) <= 5 else ""
    head = name[: len(name) - len(tail)]
    room = _FILE_NAME_BYTES - len(tail.encode())
    cut = head.encode()[:room].decode(errors="ignore") + tail
    return f"image {cut}" if cut in {".", ".."} else cut


def display_name(name: str) -> str:
    """A file's name for people: its last part, printable, not too long."""
    last = re.split(r"[/\\]", name)[-1]
    clean = "".join(letter for letter in last if unicodedata.category(letter)[0] != "C").strip()
    if len(clean) > _NAME_LENGTH:
        stem, dot, suffix = clean.rpartition(".")
        tail = dot + suffix if dot and len(suffix) <= 5 else ""
        clean = (stem if tail else clean)[: _NAME_LENGTH - len(tail)] + tail
    return clean or "image"
