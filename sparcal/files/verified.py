"""A file is used only if it is as it was written: its content has the digest that a record names."""

from __future__ import annotations

from pathlib import Path

from sparcal.errors import ArtifactError
from sparcal.files.hashing import file_digest

CALIBRATE_AGAIN = "restore it from a copy, or calibrate again under another name"
FIT_AGAIN = "restore it from a copy, or fit again"


def verified(path: Path, digest: str | None, *, remedy: str) -> Path:
    """`path`, or an ArtifactError where the file is missing, cannot be read, or is not what it was.

    Args:
        digest: SHA-256 that the record has for it; None where the record knows no such file.
        remedy: what to do, for the sentence.
    """
    try:
        whole = digest is not None and path.is_file() and file_digest(path) == digest
    except OSError as error:
        raise ArtifactError(f"{path} must be readable, got {error.strerror}: check its permissions.") from error
    if not whole:
        raise ArtifactError(f"{path} was expected to be as it was written, got a missing or changed file: {remedy}.")
    return path
