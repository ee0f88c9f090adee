"""A file of JSON lines that is only ever added to, in which a line that was changed or taken out shows.

Each line carries a digest of itself and of the whole line before it. A line that a kill cut short is no whole line: the
next one continues from the one before it. Lines without a digest were written by version 0.1; they are taken as they
are where they stand before the first line that has one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from sparcal.files.names import json_text

_DIGEST = "digest"


@dataclass(frozen=True)
class ChainedLines:
    """What such a file holds.

    Args:
        entries: every line that can be read, in order, without its digest.
        damaged: numbers, from 1, of the lines that are not what they were, or before which some are missing.
    """

    entries: list[dict[str, Any]]
    damaged: tuple[int, ...]


def add_line(path: Path, entry: Mapping[str, object]) -> None:
    """Add one line; let one process at a time do so."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(os.dup(handle), "rb") as stream:
            written = stream.read()
        signed = {**entry, _DIGEST: _digest(entry, _last_digest(written))}
        line = json_text(signed)
        torn = written != b"" and not written.endswith(b"\n")  # a writer was killed within its line
        os.write(handle, (("\n" if torn else "") + line + "\n").encode())
        os.fsync(handle)
    finally:
        os.close(handle)


def read_lines(path: Path) -> ChainedLines:
    """The lines of a file; one that is not there has none."""
    written = path.read_bytes() if path.is_file() else b""
    entries: list[dict[str, Any]] = []
    damaged: list[int] = []
    before = ""
    lines = written.split(b"\n")
    for number, line in enumerate(lines, start=1):
        entry = _whole(line)
        if entry is None:
            # A kill leaves no line break behind; the next writer sets one before its own line.
            damaged += [number] * (line.strip() != b"" and number == len(lines) - 1)
            continue
        digest = entry.pop(_DIGEST, None)
        if (digest is None and before) or (digest is not None and digest != _digest(entry, before)):
            damaged.append(number)
        before = digest or before
        entries.append(entry)
    return ChainedLines(entries, tuple(damaged))


def _whole(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except ValueError:  # cut short, or not even text
        return None
    return entry if isinstance(entry, dict) else None


def _last_digest(written: bytes) -> str:
    for line in reversed(written.split(b"\n")):
        entry = _whole(line)
        if entry is not None and _DIGEST in entry:
            return str(entry[_DIGEST])
    return ""


def _digest(entry: Mapping[str, object], before: str) -> str:
    content = json.dumps(dict(entry), sort_keys=True, ensure_ascii=True)
    return sha256(f"{before}\n{content}".encode()).hexdigest()[:32]
