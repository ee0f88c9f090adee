"""Names of files, lots and people are text: never markup, never a command to a terminal or a spreadsheet.

A file's name may hold any bytes. Python hands bytes that are no UTF-8 over as half surrogate pairs, which no stream takes.
"""

from __future__ import annotations

import json
import re

_JOINER = "\u200d"  # holds emoji together
_ESCAPE_STARTS = frozenset("xuU\\")
_UNPRINTABLE = re.compile(r"[^\x20-\x7e]")
_FORMULA_STARTS = frozenset("=+-@\t\r")


def visible(text: str) -> str:
    r"""A text in which everything can be seen: what is not printable becomes \x1b, \u202e or, for a raw byte, \xff.

    Different texts stay different: a backslash that could be taken for the start of such an escape is doubled.
    """
    if not _UNPRINTABLE.search(text) and "\\" not in text:
        return text
    return "".join(_shown(letter, after) for letter, after in zip(text, [*text[1:], ""], strict=True))


def _shown(letter: str, after: str) -> str:
    if letter == "\\":
        return "\\\\" if after in _ESCAPE_STARTS or (after and not _printable(after)) else letter
    if _printable(letter):
        return letter
    code = ord(letter)
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a file name that is no UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _printable(letter: str) -> bool:
    return letter.isprintable() or letter == _JOINER


def disarmed(text: str) -> str:
    """A cell of a table that a spreadsheet does not run as a formula."""
    return f"'{text}" if text[:1] in _FORMULA_STARTS else text


def json_text(value: object) -> str:
    """JSON in one line, in which only printable characters stand for themselves; readers get every name back as it was."""

    def coded(found: re.Match[str]) -> str:
        letter = found.group()
        if letter.isprintable():
            return letter
        return f"\\u{ord(letter):04x}" if ord(letter) < 0x10000 else json.dumps(letter)[1:-1]

    return _UNPRINTABLE.sub(coded, json.dumps(value, ensure_ascii=False, allow_nan=False))
