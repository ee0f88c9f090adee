"""What a file is known by: the SHA-256 of its content, in hexadecimal."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal, read in pieces."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def text_digest(text: str) -> str:
    """SHA-256 of a text in UTF-8, in hexadecimal; half a surrogate pair, as in a damaged file name, is kept as it is."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def words_digest(words: Iterable[str]) -> str:
    """SHA-256 of a list of words; different lists give different digests."""
    return hashlib.sha256(json.dumps(list(words)).encode()).hexdigest()
