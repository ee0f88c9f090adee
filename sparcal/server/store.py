"""Uploaded images and pictures made from them, under names that are content hashes: no name from a request is a path."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import sqlite3
import unicodedata
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from starlette.concurrency import run_in_threadpool

from sparcal.errors import DataError
from sparcal.server.database import now
from sparcal.server.settings import Limits

Picture = Literal["thumb", "view"]
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
_FLUSH = 2**20


class TooLargeError(DataError):
    """An upload beyond a limit."""


@dataclass(frozen=True)
class Stored:
    """An image that has arrived."""

    sha: str
    name: str
    bytes: int
    kind: str


@dataclass(frozen=True)
class Store:
    """The folder with images and pictures."""

    folder: Path
    limits: Limits

    def image(self, sha: str) -> Path:
        """Where the image with this hash is."""
        return self._place("images", sha)

    def picture(self, sha: str, what: Picture) -> Path:
        """Where the worker puts a picture of an image."""
        return self._place("pictures", sha).with_name(f"{sha}.{what}.webp")

    def heat(self, sha: str, lot_key: str) -> Path:
        """Where the heat map of an image under a lot is."""
        if not SHA.fullmatch(lot_key):
            raise DataError("A lot key must be a hash of 64 hexadecimal digits.")
        return self._place("pictures", sha).with_name(f"{sha}.{lot_key[:16]}.webp")

    async def receive(self, stream: AsyncIterator[bytes], *, name: str) -> Stored:
        """Write an upload to disk as it comes, never more than the limit, and give it its hash as name."""
        incoming = self.folder / "incoming"
        await run_in_threadpool(incoming.mkdir, parents=True, exist_ok=True)
        temporary = incoming / secrets.token_hex(16)
        digest, size, start, buffer = hashlib.sha256(), 0, b"", bytearray()
        try:
            with temporary.open("wb") as out:
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
            sha = digest.hexdigest()
            target = self.image(sha)
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary.replace(target)
            return Stored(sha, display_name(name), size, kind)
        finally:
            temporary.unlink(missing_ok=True)

    def _place(self, group: str, sha: str) -> Path:
        if not SHA.fullmatch(sha):
            raise DataError("An image is named by its hash of 64 hexadecimal digits.")
        return self.folder / group / sha[:2] / sha


def register(connection: sqlite3.Connection, stored: Stored, limits: Limits) -> None:
    """Note an image that has arrived; one that is known already stays as it is."""
    if connection.execute("SELECT 1 FROM images WHERE sha = ?", (stored.sha,)).fetchone():
        return
    held = connection.execute("SELECT count(*) AS images, coalesce(sum(bytes), 0) AS bytes FROM images").fetchone()
    if held["images"] >= limits.images or held["bytes"] + stored.bytes > limits.store_bytes:
        raise TooLargeError(
            f"A web station keeps at most {limits.images} images and {limits.store_bytes // 2**30} GB, "
            "got one more: start a new station folder or remove old images."
        )
    connection.execute(
        "INSERT INTO images (sha, name, bytes, kind, state, added) VALUES (?, ?, ?, ?, 'new', ?)",
        (stored.sha, stored.name, stored.bytes, stored.kind, now()),
    )


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


def display_name(name: str) -> str:
    """A file's name for people: its last part, printable, not too long."""
    last = re.split(r"[/\\]", name)[-1]
    clean = "".join(letter for letter in last if unicodedata.category(letter)[0] != "C").strip()
    if len(clean) > _NAME_LENGTH:
        stem, dot, suffix = clean.rpartition(".")
        tail = dot + suffix if dot and len(suffix) <= 5 else ""
        clean = (stem if tail else clean)[: _NAME_LENGTH - len(tail)] + tail
    return clean or "image"
