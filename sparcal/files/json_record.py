"""JSON files that are whole or absent, know their kind and version, and show when they were changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from sparcal.errors import ArtifactError
from sparcal.files.atomic import atomic_path

RECORD_FORMAT = 1


def now() -> str:
    """This moment in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def read_record(path: Path, kind: str) -> dict[str, Any]:
    """A record of this kind and version, checked against its own digest."""
    record = read_json(path)
    if record.get("kind") != kind:
        raise ArtifactError(f"{path} was expected to describe a {kind}, got {record.get('kind')!r}: check the path.")
    if record.get("format") != RECORD_FORMAT:
        versions = record.get("versions")
        writer = versions.get("sparcal") if isinstance(versions, dict) else "of unknown version"
        raise ArtifactError(
            f"{path} has format {record.get('format')}, this sparcal reads {RECORD_FORMAT}: use the sparcal that wrote it "
            f"({writer}), or fit again."
        )
    if record.get("digest") != record_digest(record):
        raise ArtifactError(f"{path} does not match its own digest, so it was changed or damaged: restore it.")
    return record


def write_record(path: Path, kind: str, content: dict[str, Any]) -> None:
    """Write a record with kind, format and digest, whole or not at all."""
    record = {**content, "kind": kind, "format": RECORD_FORMAT}
    write_json(path, {**record, "digest": record_digest(record)})


@contextmanager
def understood(what: str) -> Iterator[None]:
    """Say in a sentence where a record, whole as it may be, does not hold what this version reads from it."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArtifactError(
            f"{what} was expected to hold what sparcal writes there, got something else ({error!r}): restore it from a "
            "copy, or use the sparcal that wrote it."
        ) from error


def record_digest(record: dict[str, Any]) -> str:
    """SHA-256 of everything in a record but its digest."""
    content = {name: value for name, value in record.items() if name != "digest"}
    return sha256(json.dumps(content, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file, or an ArtifactError."""
    if path.exists() and not path.is_file():  # a pipe would be waited for, without end
        raise ArtifactError(f"{path} was expected to be a JSON file, got something that is no file: restore it.")
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ArtifactError(f"{path} was expected to be a JSON file, got one that cannot be read: {error}.") from error
    if not isinstance(value, dict):
        raise ArtifactError(f"{path} was expected to hold a JSON object, got {type(value).__name__}: restore it.")
    return value


def write_json(path: Path, value: object) -> None:
    """Write JSON, whole or not at all."""
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8") as stream:
        json.dump(value, stream, indent=1, sort_keys=True, allow_nan=False)
        stream.write("\n")
