"""What people may read about an error: one sentence, without a path of this machine."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sparcal.errors import SparcalError
from sparcal.files.full_disk import says_full

DISK_FULL = "The station's disk is full: forget images or make room on it, and the work goes on by itself."
_PATH = re.compile(r"(?<![\w.])/(?:[^\s/:;,()'\"<>]+/)*([^\s/:;,()'\"<>]*)")


def without_paths(sentence: str, known: Mapping[str, str] | None = None) -> str:
    """The sentence with every absolute path cut to its last part.

    Args:
        known: paths that may hold spaces, or that people call by another name, and what to write instead.
    """
    for path, name in sorted((known or {}).items(), key=lambda item: -len(item[0])):
        sentence = sentence.replace(path, name)
    return _PATH.sub(lambda path: path.group(1) or "/", sentence)


def sentence_of(error: Exception, known: Mapping[str, str] | None = None) -> str:
    """What a person may read about an error."""
    if says_full(error):
        return DISK_FULL
    if isinstance(error, SparcalError):
        return without_paths(str(error), known)
    if isinstance(error, OSError) and error.strerror:
        return f"The system refused: {error.strerror}."
    return "Something unexpected happened: the server's log says what."
